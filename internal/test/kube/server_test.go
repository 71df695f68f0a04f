package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	jsonstrict "sigs.k8s.io/json"

	"github.com/dibs-run/dibs/deploy/kubernetes"
)

const namespace = "shop-prod"

// An apiServer answers for the CronJobs of one namespace as the real one does: its fields' managers, conflicts and
// strict decoding are Kubernetes' own code; what it fills in and checks is a part of what the real one does.
type apiServer struct {
	t       *testing.T
	manager *managedfields.FieldManager

	mu      sync.Mutex
	objects map[string]*batchv1.CronJob
	version int
	writes  []string // methods and names of what was written
	// before is asked first; what it answers for is done with.
	before func(w http.ResponseWriter, r *http.Request) bool
}

// serve starts one, and a kubeconfig that names it.
func serve(t *testing.T) (*apiServer, *kubernetes.Cluster) {
	t.Helper()
	gvk := batchv1.SchemeGroupVersion.WithKind("CronJob")
	m, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{t: t, manager: m, objects: map[string]*batchv1.CronJob{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{current-context: test, contexts: [{name: test, context: {cluster: c, user: u, namespace: %s}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: sesame}}]}`, namespace, web.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	c, err := kubernetes.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// take is what was written since the last take.
func (s *apiServer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.writes, "; ")
	s.writes = nil
	return all
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer sesame" {
		s.answer(w, nil, apierrors.NewUnauthorized("who?"))
		return
	}
	if s.before != nil && s.before(w, r) {
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/apis/batch/v1/namespaces/"+namespace+"/cronjobs")
	if name = strings.TrimPrefix(name, "/"); !ok {
		s.answer(w, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), r.URL.Path))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	o, err := s.do(r, name, body)
	s.answer(w, o, err)
}

func (s *apiServer) answer(w http.ResponseWriter, o any, err error) {
	code := http.StatusOK
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		st := status.Status()
		o, code = &st, int(st.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(o); err != nil {
		s.t.Error(err)
	}
}

func (s *apiServer) do(r *http.Request, name string, body []byte) (any, error) {
	live, there := s.objects[name]
	switch {
	case r.Method == http.MethodGet && name == "":
		return s.page(r), nil
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		return s.apply(r, name, live, body)
	case !there:
		return nil, apierrors.NewNotFound(batchv1.Resource("cronjobs"), name)
	case r.Method == http.MethodGet:
		return live, nil
	case r.Method == http.MethodDelete:
		return s.remove(name, live, body)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/merge-patch+json":
		return s.patch(r, name, live, body)
	}
	return nil, apierrors.NewMethodNotSupported(batchv1.Resource("cronjobs"), r.Method)
}

// page is a list in pages of two, whatever is asked for, so that there are several.
func (s *apiServer) page(r *http.Request) *batchv1.CronJobList {
	names := slices.Sorted(maps.Keys(s.objects))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := &batchv1.CronJobList{TypeMeta: metav1.TypeMeta{Kind: "CronJobList", APIVersion: "batch/v1"}}
	for _, name := range names[from:min(from+2, len(names))] {
		list.Items = append(list.Items, *s.objects[name])
	}
	if from+2 < len(names) {
		list.Continue = strconv.Itoa(from + 2)
	}
	return list
}

func (s *apiServer) apply(r *http.Request, name string, live *batchv1.CronJob, body []byte) (any, error) {
	var strict batchv1.CronJob
	if unknown, err := jsonstrict.UnmarshalStrict(body, &strict); err != nil || len(unknown) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprint("strict decoding: ", err, unknown))
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	q := r.URL.Query()
	if q.Get("fieldManager") == "" || strict.Name != name {
		return nil, apierrors.NewBadRequest("no field manager, or another name")
	}
	is := live
	if is == nil {
		if strict.ResourceVersion != "" {
			return nil, conflict(name)
		}
		is = &batchv1.CronJob{TypeMeta: strict.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	} else if strict.ResourceVersion != "" && strict.ResourceVersion != live.ResourceVersion {
		return nil, conflict(name)
	}
	u.SetResourceVersion("")
	u.SetNamespace(namespace)
	o, err := s.manager.Apply(is.DeepCopy(), u, q.Get("fieldManager"), q.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return s.store(live, o.(*batchv1.CronJob), q.Get("dryRun") == "All", "apply")
}

func conflict(name string) error {
	return apierrors.NewConflict(batchv1.Resource("cronjobs"), name, errors.New("the object has been modified"))
}

func (s *apiServer) patch(r *http.Request, name string, live *batchv1.CronJob, body []byte) (any, error) {
	was, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	is, err := mergePatch(was, body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var o batchv1.CronJob
	if unknown, err := jsonstrict.UnmarshalStrict(is, &o); err != nil || len(unknown) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprint("strict decoding: ", err, unknown))
	}
	if o.ResourceVersion != live.ResourceVersion {
		return nil, conflict(name)
	}
	managed, err := s.manager.Update(live.DeepCopy(), &o, r.URL.Query().Get("fieldManager"))
	if err != nil {
		return nil, err
	}
	return s.store(live, managed.(*batchv1.CronJob), r.URL.Query().Get("dryRun") == "All", "patch")
}

func mergePatch(was, patch []byte) ([]byte, error) {
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal(was, &a), json.Unmarshal(patch, &b)); err != nil {
		return nil, err
	}
	var merge func(a, b map[string]any)
	merge = func(a, b map[string]any) {
		for k, v := range b {
			below, isMap := v.(map[string]any)
			own, has := a[k].(map[string]any)
			switch {
			case v == nil:
				delete(a, k)
			case isMap && has:
				merge(own, below)
			default:
				a[k] = v
			}
		}
	}
	merge(a, b)
	return json.Marshal(a)
}

// store fills in, checks and keeps an object.
func (s *apiServer) store(live, o *batchv1.CronJob, dry bool, verb string) (any, error) {
	fillIn(o)
	if err := valid(o); err != nil {
		return nil, apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("CronJob").GroupKind(), o.Name, nil)
	}
	if live != nil && equal(live, o) {
		return live, nil // nothing changes: no new version, and no write
	}
	if o.UID == "" {
		o.UID, o.Generation, o.CreationTimestamp = types.UID(fmt.Sprint("uid-", s.version)), 1, metav1.NewTime(time.Unix(1e9, 0))
	} else if live != nil && !sameJSON(live.Spec, o.Spec) {
		o.Generation++
	}
	if dry {
		return o, nil
	}
	s.version++
	o.ResourceVersion = strconv.Itoa(s.version)
	s.objects[o.Name] = o
	s.writes = append(s.writes, verb+" "+o.Name)
	return o, nil
}

func equal(a, b *batchv1.CronJob) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, o := range []*batchv1.CronJob{x, y} {
		for i := range o.ManagedFields {
			o.ManagedFields[i].Time = nil
		}
	}
	return sameJSON(x, y)
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func (s *apiServer) remove(name string, live *batchv1.CronJob, body []byte) (any, error) {
	var o metav1.DeleteOptions
	if unknown, err := jsonstrict.UnmarshalStrict(body, &o); err != nil || len(unknown) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprint(err, unknown))
	}
	if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != live.UID || p.ResourceVersion != nil && *p.ResourceVersion != live.ResourceVersion) {
		return nil, conflict(name)
	}
	if len(o.DryRun) == 0 {
		delete(s.objects, name)
		s.writes = append(s.writes, "delete "+name)
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func set[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// fillIn is what Kubernetes fills in.
func fillIn(o *batchv1.CronJob) {
	set(&o.Spec.Suspend, false)
	set(&o.Spec.SuccessfulJobsHistoryLimit, 3)
	set(&o.Spec.FailedJobsHistoryLimit, 1)
	if o.Spec.ConcurrencyPolicy == "" {
		o.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	p := &o.Spec.JobTemplate.Spec.Template.Spec
	if p.DNSPolicy == "" {
		p.DNSPolicy, p.SchedulerName = corev1.DNSClusterFirst, "default-scheduler"
	}
	set(&p.TerminationGracePeriodSeconds, 30)
	if p.SecurityContext == nil {
		p.SecurityContext = &corev1.PodSecurityContext{}
	}
	p.DeprecatedServiceAccount = p.ServiceAccountName
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.TerminationMessagePath == "" {
			c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "/dev/termination-log", corev1.TerminationMessageReadFile, corev1.PullIfNotPresent
		}
	}
	for i := range p.Volumes {
		if v := p.Volumes[i].Secret; v != nil {
			set(&v.DefaultMode, 420)
		}
		if v := p.Volumes[i].DownwardAPI; v != nil {
			set(&v.DefaultMode, 420)
		}
	}
}

// valid is a part of what Kubernetes checks.
func valid(o *batchv1.CronJob) error {
	p := o.Spec.JobTemplate.Spec.Template
	_, err := cron.ParseStandard(o.Spec.Schedule)
	errs := []error{err}
	if o.Spec.TimeZone != nil {
		_, err := time.LoadLocation(*o.Spec.TimeZone)
		errs = append(errs, err)
	}
	for _, l := range []map[string]string{o.Labels, p.Labels} {
		for k, v := range l {
			errs = append(errs, problem(validation.IsQualifiedName(k)), problem(validation.IsValidLabelValue(v)))
		}
	}
	for k := range o.Annotations {
		errs = append(errs, problem(validation.IsQualifiedName(k)))
	}
	errs = append(errs, problem(validation.IsDNS1123Label(o.Name)))
	if len(o.Name) > 52 || len(p.Spec.Containers) == 0 || strings.Contains(o.Spec.Schedule, "TZ") {
		errs = append(errs, errors.New("the name is too long, or there is no container, or a zone in the schedule"))
	}
	volumes := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		errs = append(errs, problem(validation.IsDNS1123Label(v.Name)))
		volumes[v.Name] = true
	}
	for _, c := range p.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				errs = append(errs, fmt.Errorf("no volume %s", m.Name))
			}
		}
	}
	return errors.Join(errs...)
}

func problem(all []string) error {
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

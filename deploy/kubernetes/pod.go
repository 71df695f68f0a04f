package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/lazy"
)

// Where the command finds what the pod gives it.
const (
	// ManifestPath is where the manifest of the entry's Container is.
	ManifestPath = "/run/dibs/manifest/jobs.json"
	// StorePath is for the secret that has the store's address.
	StorePath = "/run/dibs/store"
	// StateDir is a directory of the pod's own, which goes with it.
	StateDir = "/run/dibs/state/dir"
	// JobVariable has the name of the Job, and with it the scheduled time.
	JobVariable = "DIBS_KUBERNETES_JOB"

	manifestAnnotation = "dibs.run/manifest"
	jobLabel           = "batch.kubernetes.io/job-name"
)

const (
	// maxManifest is what fits into an object's annotations, which are 256 KiB together.
	maxManifest = 240 << 10
	// defaultGrace is for commands that say nothing of it.
	defaultGrace = 10 * time.Second
	// keepJobs is how long Kubernetes keeps a Job that ended, at most.
	keepJobs = 7 * 24 * time.Hour
	// leastDeadline: the controller looks every ten seconds, and with less it may never fire.
	leastDeadline = 30 * time.Second
)

var (
	varName    = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	secretKey  = lazy.Regexp(`^[-._a-zA-Z0-9]{1,253}$`)
	objectName = lazy.Regexp(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// render is an entry's text: the specs of its CronJobs.
func render(e deploy.Entry) (string, error) {
	if err := check(e); err != nil {
		return "", err
	}
	template, err := podOf(e)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, when := range e.When {
		spec, err := cronJobSpec(e, when, template)
		if err != nil {
			return "", err
		}
		parts = append(parts, toYAML(spec))
	}
	return strings.Join(parts, separator), nil
}

// check refuses what a CronJob cannot have.
func check(e deploy.Entry) error {
	switch c := e.Container; {
	case c == nil || c.Image == "":
		return errors.New("no image for its container: name it with --image")
	case len(c.Manifest) > maxManifest:
		return fmt.Errorf("its manifest has %d bytes, and an object holds %d: put long scripts into the image", len(c.Manifest), maxManifest)
	case c.ServiceAccount != "" && !objectName().MatchString(c.ServiceAccount):
		return fmt.Errorf("service account %q: want an object's name", c.ServiceAccount)
	}
	switch {
	case len(e.Command) == 0 || !path.IsAbs(e.Command[0]):
		return errors.New("the command's program has no absolute path")
	case strings.HasSuffix(e.App, "-") || strings.HasSuffix(e.Job, "-"):
		return errors.New("a label of Kubernetes cannot end with -: rename the app or the job")
	case e.MailTo != nil:
		return errors.New("a CronJob mails nothing")
	case e.Zone != "":
		return errors.New("a line states its zone itself")
	}
	return nil
}

func cronJobSpec(e deploy.Entry, when string, template object) (object, error) {
	fields := strings.Fields(when)
	if len(fields) != 6 {
		return nil, fmt.Errorf("%q: want five fields and a zone", when)
	}
	concurrency := "Forbid"
	if e.Overlap {
		concurrency = "Allow"
	}
	spec := object{
		"schedule":                   strings.Join(fields[:5], " "),
		"timeZone":                   fields[5],
		"concurrencyPolicy":          concurrency,
		"successfulJobsHistoryLimit": int64(3),
		"failedJobsHistoryLimit":     int64(3),
		"jobTemplate": object{"spec": object{
			"backoffLimit": int64(0), // dibs retries by the job's own policy
			// A pod that Kubernetes ended (a drain, a preemption, an eviction) is no failure of the job: another one
			// takes its place, and fires the same tick.
			"podFailurePolicy": object{"rules": []any{object{"action": "Ignore",
				"onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}}}},
			// What a deleted CronJob leaves goes by itself.
			"ttlSecondsAfterFinished": int64(keepJobs / time.Second),
			"template":                clone(template),
		}},
	}
	if e.StartWithin > 0 {
		spec["startingDeadlineSeconds"] = wholeSeconds(max(e.StartWithin, leastDeadline))
	}
	return spec, nil
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// podOf is the template of an entry's pods.
func podOf(e deploy.Entry) (object, error) {
	user, err := userOf(e)
	if err != nil {
		return nil, err
	}
	v := volumes{mounts: []any{mount("dibs-state", path.Dir(StateDir), "")}, all: []any{object{"name": "dibs-state", "emptyDir": object{}}}}
	v.manifest(e.Container.Manifest)
	env, err := environment(e, &v)
	if err != nil {
		return nil, err
	}
	grace := e.StopGrace
	if grace == 0 {
		grace = defaultGrace
	}
	container := object{
		"name": "dibs", "image": e.Container.Image, "command": literals(e.Command), "env": env, "volumeMounts": v.mounts,
		"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}}},
	}
	spec := object{
		"restartPolicy": "Never",
		"containers":    []any{container},
		"volumes":       v.all,
		// A Service by the name of dibs would set variables that begin with DIBS_.
		"enableServiceLinks": false,
		// dibs stops the job itself, and then has to report it.
		"terminationGracePeriodSeconds": wholeSeconds(grace + 20*time.Second),
		"securityContext":               user,
	}
	if e.Container.ServiceAccount == "" {
		spec["automountServiceAccountToken"] = false
	} else {
		spec["serviceAccountName"] = e.Container.ServiceAccount
	}
	meta := object{"labels": object{managedBy: managerName, appLabel: e.App, jobLabelName: e.Job}}
	if e.Container.Manifest != "" {
		meta["annotations"] = object{manifestAnnotation: e.Container.Manifest}
	}
	return object{"metadata": meta, "spec": spec}, nil
}

// userOf is the pod's security: what the standard "restricted" asks for, and whom the command runs as.
func userOf(e deploy.Entry) (object, error) {
	s := object{"runAsNonRoot": true, "seccompProfile": object{"type": "RuntimeDefault"}}
	if e.User == "" {
		return s, nil // the image's
	}
	uid, err := strconv.ParseInt(e.User, 10, 31)
	if err != nil || uid <= 0 {
		return nil, fmt.Errorf("user %q: want a number above 0, since a pod knows no names and is not to be root", e.User)
	}
	s["runAsUser"] = uid
	return s, nil
}

// literals keeps Kubernetes from replacing $(NAME).
func literals(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = literal(w)
	}
	return all
}

func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// environment are the variables of the container: those of the entry, its secrets, and the Job's name.
func environment(e deploy.Entry, v *volumes) ([]any, error) {
	env := []any{
		object{"name": "DIBS_DIR", "value": StateDir},
		object{"name": JobVariable, "valueFrom": object{"fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.labels['" + jobLabel + "']"}}},
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if !varName().MatchString(name) || name == "DIBS_DIR" || name == JobVariable {
			return nil, fmt.Errorf("variable %q: want a name of letters, digits and _, and not one of the pod's own", name)
		}
		v := object{"name": name}
		if e.Env[name] != "" { // the server leaves out what is empty
			v["value"] = literal(e.Env[name])
		}
		env = append(env, v)
	}
	for _, s := range e.Container.Secrets {
		if !objectName().MatchString(s.Name) || !secretKey().MatchString(s.Key) {
			return nil, fmt.Errorf("secret %q: %q and %q are no name and key of a Secret", s.Ref, s.Name, s.Key)
		}
		name, inEnv := strings.CutPrefix(s.Ref, "env:")
		file, inFile := strings.CutPrefix(s.Ref, "file:")
		switch {
		case inEnv && varName().MatchString(name) && e.Env[name] == "":
			env = append(env, object{"name": name, "valueFrom": object{"secretKeyRef": object{"name": s.Name, "key": s.Key}}})
		case inFile && path.IsAbs(file) && path.Clean(file) == file && file != "/" && !strings.Contains(file, ":"):
			v.secret(s, file)
		default:
			return nil, fmt.Errorf("secret %q: want env:NAME, of a variable that is not set otherwise, or file:/path", s.Ref)
		}
	}
	return env, nil
}

// volumes are what is mounted.
type volumes struct {
	mounts, all []any
	names       map[string]string // of Secrets, to their volumes
}

func mount(name, where, sub string) object {
	m := object{"name": name, "mountPath": where}
	if sub != "" {
		m["subPath"], m["readOnly"] = sub, true
	}
	return m
}

// manifest mounts the annotation in which the manifest is.
func (v *volumes) manifest(text string) {
	if text == "" {
		return
	}
	item := object{"path": path.Base(ManifestPath), "fieldRef": object{"apiVersion": "v1", "fieldPath": "metadata.annotations['" + manifestAnnotation + "']"}}
	v.all = append(v.all, object{"name": "dibs-manifest", "downwardAPI": object{"items": []any{item}}})
	m := mount("dibs-manifest", path.Dir(ManifestPath), "")
	m["readOnly"] = true
	v.mounts = append(v.mounts, m)
}

// secret mounts one key of a Secret as a file. Nothing beside it is hidden.
func (v *volumes) secret(s deploy.Secret, file string) {
	name, known := v.names[s.Name]
	if !known {
		name = fmt.Sprintf("dibs-secret-%d", len(v.names))
		if v.names == nil {
			v.names = map[string]string{}
		}
		v.names[s.Name] = name
		v.all = append(v.all, object{"name": name, "secret": object{"secretName": s.Name}})
	}
	v.mounts = append(v.mounts, mount(name, file, s.Key))
}

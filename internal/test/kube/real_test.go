package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/kubernetes"
)

// A realServer is kube-apiserver, with etcd. DIBS_KUBE_APISERVER names its program, DIBS_ETCD etcd's, and
// DIBS_KUBE_CONTROLLER_MANAGER, where it is set, that of what makes Jobs and deletes. They need no privileges.
//
// `go build k8s.io/kubernetes/cmd/kube-apiserver` makes it, in a module that requires k8s.io/kubernetes at v1.N.M and
// has, for each of the modules that its go.mod replaces by ./staging, `replace k8s.io/api => k8s.io/api v0.N.M`.
type realServer struct {
	*testing.T
	address string
	http    *http.Client
}

func realCluster(t *testing.T) *realServer {
	t.Helper()
	program, etcd := os.Getenv("DIBS_KUBE_APISERVER"), os.Getenv("DIBS_ETCD")
	if program == "" || etcd == "" {
		t.Skip("DIBS_KUBE_APISERVER and DIBS_ETCD name no programs")
	}
	dir := t.TempDir()
	store, peers, port := freePort(t), freePort(t), freePort(t)
	start(t, etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", "http://127.0.0.1:"+store, "--advertise-client-urls", "http://127.0.0.1:"+store,
		"--listen-peer-urls", "http://127.0.0.1:"+peers, "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := file("key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	start(t, program, "--etcd-servers", "http://127.0.0.1:"+store, "--cert-dir", dir, "--secure-port", port, "--bind-address", "127.0.0.1", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-key-file", keys, "--service-account-signing-key-file", keys, "--service-account-issuer", "https://x.example", "--authorization-mode", "RBAC",
		"--token-auth-file", file("tokens", "sesame,admin,1,\"system:masters\"\n"))
	config := file("config", fmt.Sprintf(`{current-context: real, contexts: [{name: real, context: {cluster: c, user: u, namespace: %s}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%s", certificate-authority: apiserver.crt}}], users: [{name: u, user: {token: sesame}}]}`, namespace, port))
	t.Setenv("KUBECONFIG", config)
	s := &realServer{t, "https://127.0.0.1:" + port, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	for { // until the test's own end
		if res, err := s.ask("GET", "/readyz", "", nil); err == nil && res.StatusCode == http.StatusOK {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if manager := os.Getenv("DIBS_KUBE_CONTROLLER_MANAGER"); manager != "" {
		start(t, manager, "--kubeconfig", config, "--controllers", "cronjob-controller,job-controller,garbage-collector-controller", "--leader-elect=false", "--secure-port", "0")
	}
	return s
}

// start runs a program until the test has ended; what it prints is shown where it ends before.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("%s: %v\n%s", program, err, out.String())
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (s *realServer) ask(method, path, kind string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, s.address+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer sesame")
	req.Header.Set("Content-Type", kind)
	return s.http.Do(req)
}

// do makes a request, which is to succeed.
func (s *realServer) do(method, path, kind string, body any) map[string]any {
	s.Helper()
	res, err := s.ask(method, path, kind, body)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	var o map[string]any
	if err != nil || res.StatusCode/100 != 2 || json.Unmarshal(data, &o) != nil {
		s.Fatalf("%s %s: %d, %v\n%s", method, path, res.StatusCode, err, data)
	}
	return o
}

const cronJobs = "/apis/batch/v1/namespaces/" + namespace + "/cronjobs"

func (s *realServer) cronJobs() (all []map[string]any) {
	s.Helper()
	for _, o := range s.do("GET", cronJobs, "", nil)["items"].([]any) {
		all = append(all, o.(map[string]any))
	}
	return all
}

// only is the one CronJob that is there, without what the server notes in passing.
func (s *realServer) only() (name, uid string, spec, meta map[string]any) {
	s.Helper()
	all := s.cronJobs()
	if len(all) != 1 {
		s.Fatalf("%d CronJobs", len(all))
	}
	meta = all[0]["metadata"].(map[string]any)
	return meta["name"].(string), meta["uid"].(string), all[0]["spec"].(map[string]any), meta
}

func (s *realServer) patch(manager, kind, name string, o map[string]any) {
	s.Helper()
	query := "?fieldManager=" + manager
	if strings.HasPrefix(kind, "apply") {
		query += "&force=true"
	}
	s.do("PATCH", cronJobs+"/"+name+query, "application/"+kind, o)
}

func applied(name string, o map[string]any) map[string]any {
	o["apiVersion"], o["kind"] = "batch/v1", "CronJob"
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = name
	o["metadata"] = meta
	return o
}

// The way of an entry on a real server: what the one of these tests says of conflicts, owners and what is filled in,
// the real one says too.
func TestARealServer(t *testing.T) {
	s := realCluster(t)
	s.do("POST", "/api/v1/namespaces", "application/json", map[string]any{"metadata": map[string]any{"name": namespace,
		"labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}})
	s.do("POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts", "application/json", map[string]any{"metadata": map[string]any{"name": "default"}})
	c, err := kubernetes.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	e := entry("mail", "15 4 1 * * Europe/Berlin")
	in, over := install(e), install(e)
	over.Overwrite = true
	clean := func(what string) {
		t.Helper()
		if p := apply(t, c, in); !p.Clean() || p.Changes() {
			t.Fatalf("%s: %s\n%s", what, actions(p), p.Diff)
		}
	}
	apply(t, c, in)
	name, uid, spec, meta := s.only()
	version := meta["resourceVersion"]
	clean("a second apply")
	if _, _, _, meta := s.only(); meta["resourceVersion"] != version {
		t.Error("a second apply wrote")
	}
	// Its pods are let into a namespace that lets in nothing else.
	template := spec["jobTemplate"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)
	template["metadata"].(map[string]any)["name"] = "x"
	template["apiVersion"], template["kind"] = "v1", "Pod"
	pod := s.do("POST", "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", "application/json", template)
	if got := pod["spec"].(map[string]any)["automountServiceAccountToken"]; got != false {
		t.Errorf("%v", pod)
	}

	e.When[0] = "15 5 1 * * Europe/Berlin"
	apply(t, c, in)
	clean("an update")
	for what, edit := range map[string]func(){
		"a merge patch": func() {
			s.patch("kubectl-patch", "merge-patch+json", name, map[string]any{"spec": map[string]any{"suspend": true}})
		},
		"an edit": func() {
			s.patch("kubectl-edit", "merge-patch+json", name, map[string]any{"spec": map[string]any{"schedule": "* * * * *"}})
		},
		"an apply": func() {
			s.patch("argocd", "apply-patch+yaml", name, applied(name, map[string]any{"spec": map[string]any{"suspend": true}}))
		},
		"the same fields": func() {
			s.patch("argocd", "apply-patch+yaml", name, applied(name, map[string]any{"spec": map[string]any{"schedule": "15 5 1 * *"}}))
		},
		"a container": func() {
			s.patch("istio", "strategic-merge-patch+json", name, map[string]any{"spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "proxy", "image": "x"}}}}}}}})
		},
		"no managers": func() {
			s.patch("x", "merge-patch+json", name, map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
		},
	} {
		edit()
		if p := apply(t, c, in); actions(p) != "edited shop/mail#0" {
			t.Errorf("%s: %s", what, actions(p))
		}
		apply(t, c, over)
		clean(what)
	}
	s.patch("kubectl", "merge-patch+json", name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}, "annotations": map[string]any{"dibs.run/spec": "0011"}}})
	if p := apply(t, c, in); actions(p) != "update shop/mail#0" {
		t.Error(actions(p))
	}
	clean("a changed mark")

	apply(t, c, deploy.Eject{App: "shop"})
	if _, _, _, meta := s.only(); meta["managedFields"] != nil || meta["annotations"] != nil || len(meta["labels"].(map[string]any)) != 1 {
		t.Errorf("ejected: %v", meta)
	}
	if p := apply(t, c, deploy.Adopt{Entries: in.Entries}); actions(p) != "adopt shop/mail#0" {
		t.Error(actions(p))
	}
	clean("an adopt")
	if _, is, _, _ := s.only(); is != uid {
		t.Error("it is another object")
	}
	s.do("POST", cronJobs, "application/json", applied("cronix-a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"cronix.dev/managed": "true", "cronix.dev/app": "shop",
		"cronix.dev/job": "old", "cronix.dev/index": "0"}}, "spec": spec}))
	old := entry("old", "1 1 * * * Etc/UTC")
	if p := apply(t, c, deploy.Adopt{Entries: []deploy.Entry{old}}); actions(p) != "adopt shop/old#0" {
		t.Error(actions(p))
	}
	in.Entries = append(in.Entries, old)
	clean("an adopt from cronix")
	for _, o := range s.cronJobs() {
		if b, _ := json.Marshal(o); strings.Contains(string(b), "cronix.dev") {
			t.Errorf("%s", b)
		}
	}
	// The longest names, and the largest manifest.
	long := entry(strings.Repeat("j", 63), "1 1 * * * Etc/UTC")
	long.App = strings.Repeat("a", 63)
	long.Container.Manifest = strings.Repeat("é", 120<<10)
	apply(t, c, deploy.Install{App: long.App, Entries: []deploy.Entry{long}})
	if p := apply(t, c, deploy.Install{App: long.App, Entries: []deploy.Entry{long}}); !p.Clean() {
		t.Error(actions(p))
	}
	for _, refused := range []deploy.Entry{entry("new", "1 1 * * * Mars/Olympus"), entry("new", "1 1 32 * * Etc/UTC")} {
		in := in
		in.Entries = append(in.Entries[:2:2], refused)
		if _, err := deploy.Apply(t.Context(), c, in, ""); err == nil || !strings.Contains(err.Error(), "nothing was written: shop/new#0") || !strings.Contains(err.Error(), "422") {
			t.Error(err)
		}
	}
	if os.Getenv("DIBS_KUBE_CONTROLLER_MANAGER") == "" {
		t.Skip("without the controller nothing fires, and what is deleted stays")
	}
	fired(s, c)
	apply(t, c, deploy.Prune{App: "shop"})
	apply(t, c, in)
	clean("made again at once")
}

// fired waits for a fire: the Job's name is what a pod is told, and says the scheduled time.
func fired(s *realServer, c *kubernetes.Cluster) {
	s.Helper()
	e := entry("often", "* * * * * Etc/UTC")
	apply(s.T, c, deploy.Install{App: "shop", Entries: []deploy.Entry{e}})
	for {
		for _, item := range s.do("GET", "/api/v1/namespaces/"+namespace+"/pods", "", nil)["items"].([]any) {
			pod := item.(map[string]any)["metadata"].(map[string]any)
			name, _ := pod["labels"].(map[string]any)["batch.kubernetes.io/job-name"].(string)
			if !strings.HasPrefix(name, "dibs-shop-often-0-") {
				continue
			}
			job := s.do("GET", "/apis/batch/v1/namespaces/"+namespace+"/jobs/"+name, "", nil)
			at, err := time.Parse(time.RFC3339, job["metadata"].(map[string]any)["annotations"].(map[string]any)["batch.kubernetes.io/cronjob-scheduled-timestamp"].(string))
			if err != nil || !strings.HasSuffix(name, fmt.Sprintf("-%d", at.Unix()/60)) {
				s.Errorf("%s is for %s, %v", name, at, err)
			}
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

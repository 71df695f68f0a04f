package kubernetes

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/schedule"
)

func TestMain(m *testing.M) { os.Exit(testdirs.Run(m)) }

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		expr, zone, want string
		more             bool
	}{
		{"15 4 1 * *", "Europe/Berlin", "15 4 1 * * Europe/Berlin", false},
		{"*/10 9-17 * * MON-FRI", "UTC", "*/10 9-17 * * 1-5 Etc/UTC", false},
		{"0 22 * JAN FRI-MON", "UTC", "0 22 * 1 0,1,5,6 Etc/UTC", false},
		{"0 0 13 * FRI", "UTC", "0 0 13 * 5 Etc/UTC", false},
		{"0 0 */2 * FRI", "UTC", "0 0 * * 5 Etc/UTC", true}, // both, which would be either
		{"@weekly", "UTC", "0 0 * * 0 Etc/UTC", false},
		{"30 2 * * *", "Europe/Berlin", "30 2 * * * Europe/Berlin; 0 1 * 3 0 Etc/UTC", true},
		{"15 * * * *", "Europe/Berlin", "15 * * * * Europe/Berlin", false},
		{"15 4 * * *", "Pacific/Chatham", "30 14,15 * * * Etc/UTC", true},
		{"0 18 L * *", "UTC", "0 18 28-31 * * Etc/UTC", true},
		{"0 18 * * FRIL", "UTC", "0 18 * * 5 Etc/UTC", true},
		{"@every 90m", "Asia/Kolkata", "0 */3 * * * Etc/UTC; 30 1,4,7,10,13,16,19,22 * * * Etc/UTC", false},
		{"@every 36h", "UTC", "0 0,12 * * * Etc/UTC", true},
		{"@every 7m", "UTC", "* * * * * Etc/UTC", true},
		{"@every 32m", "UTC", "*/4 * * * * Etc/UTC", true}, // exact would be eight CronJobs
	} {
		zone, _ := schedule.LoadZone(c.zone)
		s, err := schedule.Parse(c.expr, zone)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Translate(s)
		if got := strings.Join(tr.Lines, "; "); err != nil || got != c.want || tr.More != c.more {
			t.Errorf("%s in %s: %s, more %v, %v; want %s", c.expr, c.zone, got, tr.More, err, c.want)
		}
	}
	for _, expr := range []string{"*/10 * * * * *", "30 0 6 * * *", "@every 90s"} {
		s, _ := schedule.Parse(expr, time.UTC)
		if tr, err := Translate(s); err == nil || !strings.Contains(err.Error(), "leave out the seconds") {
			t.Errorf("%s: %v, %v", expr, tr, err)
		}
	}
}

// A name fits, and differs where anything does, also where the parts have dashes.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	seen := map[string]bool{}
	for _, id := range []deploy.ID{{App: "a-b", Job: "c"}, {App: "a", Job: "b-c"}, {App: "a", Job: "b-c", Index: 1}, {App: long, Job: long}, {App: long, Job: long + "y", Index: 9999}} {
		for line := range 2 {
			name := nameOf(id, line)
			if len(name) > maxName || !objectName().MatchString(name) || strings.Contains(name, ".") || seen[name] {
				t.Errorf("%s, line %d: %q", id, line, name)
			}
			seen[name] = true
		}
	}
	if got := nameOf(deploy.ID{App: "shop", Job: "mail"}, 0); got != "dibs-shop-mail-0-629311b9" { // for ever
		t.Error(got)
	}
}

func entryOf(change func(*deploy.Entry)) deploy.Entry {
	e := deploy.Entry{ID: deploy.ID{App: "shop", Job: "mail"}, When: []string{"0 7 * * * Etc/UTC"}, Command: []string{"/usr/bin/dibs"}, Container: &deploy.Container{Image: "shop:1"}}
	change(&e)
	return e
}

// What a CronJob cannot have is refused, with the cure.
func TestRefused(t *testing.T) {
	for says, change := range map[string]func(*deploy.Entry){
		"name it with --image":     func(e *deploy.Entry) { e.Container = nil },
		"no absolute path":         func(e *deploy.Entry) { e.Command = []string{"dibs"} },
		"cannot end with -":        func(e *deploy.Entry) { e.Job = "mail-" },
		"a number above 0":         func(e *deploy.Entry) { e.User = "www-data" },
		"is not to be root":        func(e *deploy.Entry) { e.User = "0" },
		"not one of the pod's own": func(e *deploy.Entry) { e.Env = map[string]string{"DIBS_DIR": "/x"} },
		"put long scripts":         func(e *deploy.Entry) { e.Container.Manifest = strings.Repeat("x", maxManifest+1) },
		"of a variable that is not": func(e *deploy.Entry) {
			e.Env = map[string]string{"A": "b"}
			e.Container.Secrets = []deploy.Secret{{Ref: "env:A", Name: "n", Key: "k"}}
		},
		"want env:NAME": func(e *deploy.Entry) {
			e.Container.Secrets = []deploy.Secret{{Ref: "file:/a/../b", Name: "n", Key: "k"}}
		},
		"no name and key of a Secret": func(e *deploy.Entry) { e.Container.Secrets = []deploy.Secret{{Ref: "env:A", Name: "N", Key: "k"}} },
		"want five fields and a zone": func(e *deploy.Entry) { e.When = []string{"0 7 * * *"} },
		"want an object's name":       func(e *deploy.Entry) { e.Container.ServiceAccount = "a b" },
	} {
		if _, err := render(entryOf(change)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// clientOf is one of a server that answers so.
func clientOf(t *testing.T, h http.HandlerFunc) *client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := newConnection("", s.URL, "shop", outbound.New(outbound.Options{}), (&user{Token: "sesame"}).bearer)
	if err != nil {
		t.Fatal(err)
	}
	c.patience = 100 * time.Millisecond
	c.pause = func(context.Context, time.Duration) error { return nil }
	return &c.client
}

// Each way in which a server fails ends soon, with an error that has the cure and no secret.
func TestAServerThatFails(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for says, h := range map[string]http.HandlerFunc{
		"log in again": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"need the verbs list, create, patch and delete": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
		"429 Too Many Requests": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1000000")
			w.WriteHeader(429)
		},
		"overloaded or ill":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"does not answer (3 attempts":  func(_ http.ResponseWriter, r *http.Request) { <-release },
		"its answer is no JSON object": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"gives no list of CronJobs":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":3}`) },
		"307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
	} {
		_, err := clientOf(t, h).list(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", says, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told to end"))
	if _, err := clientOf(t, nil).list(ctx); err == nil || err.Error() != "told to end" {
		t.Error(err)
	}
}

// A list that the server has forgotten between two pages begins again, and one that never ends is given up.
func TestLists(t *testing.T) {
	pages := 0
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch pages++; {
		case r.FormValue("continue") == "":
			fmt.Fprintf(w, `{"metadata":{"continue":"x"},"items":[{"n":%d}]}`, pages)
		case pages == 2:
			w.WriteHeader(http.StatusGone)
		default:
			fmt.Fprintf(w, `{"metadata":{},"items":[{"n":%d}]}`, pages)
		}
	})
	if all, err := c.list(t.Context()); err != nil || !same(all, []object{{"n": 3}, {"n": 4}}) {
		t.Errorf("%v, %v", all, err)
	}
	c = clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"metadata":{"continue":"x"},"items":[]}`)
	})
	if all, err := c.list(t.Context()); err == nil || !strings.Contains(err.Error(), "in more than") {
		t.Errorf("%v, %v", all, err)
	}
}

// A pod's own account: its token is the one of the moment, and goes to nobody else's certificate.
func TestInPod(t *testing.T) {
	var got []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		fmt.Fprint(w, `{"items":[]}`)
	}))
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("namespace", "shop\n")
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	c, err := inPod(s.Listener.Addr().String(), dir, "")
	if err != nil || c.namespace != "shop" {
		t.Fatal(c, err)
	}
	for _, token := range []string{"first", "second"} {
		write("token", token+"\n")
		if _, err := c.list(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c.http, err = (&cluster{}).client(nil, nil); err != nil { // it trusts the system's authorities
		t.Fatal(err)
	}
	c.pause = func(context.Context, time.Duration) error { return nil }
	if _, err := c.list(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") || !slices.Equal(got, []string{"Bearer first", "Bearer second"}) {
		t.Errorf("%v, %q", err, got)
	}
}

// What is deleted is waited for, unless the cluster is slow.
func TestGone(t *testing.T) {
	all := []object{{"metadata": object{"uid": "a", "name": "x"}}, {"metadata": object{"uid": "b", "name": "y"}}}
	looks := 0
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if looks++; looks == 3 {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, `{"metadata":{"uid":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	})
	if c.gone(t.Context(), all); looks != 4 { // the second is another by then
		t.Errorf("%d looks", looks)
	}
	c = clientOf(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"metadata":{"uid":"a"}}`) })
	c.gone(t.Context(), all)
}

// What is written is read as the same, whatever it looks like.
func TestWords(t *testing.T) {
	words := []string{"yes", "0x1", "1_0", "12:30:45", ": ", "a---", "---", "a\n---\nb", "\t\n", "\n #x", " a\nb", "-----BEGIN KEY-----\nx\n-----END KEY-----\n", "\u2028\n", "\ufeff", "\x00", "~", "<<", "*a", "!!int"}
	e := entryOf(func(e *deploy.Entry) {
		e.When = append(e.When, "0 8 * * * Etc/UTC")
		e.Command = append(e.Command, words...)
	})
	text, err := render(e)
	if err != nil {
		t.Fatal(err)
	}
	specs, err := specsOf(text)
	if err != nil || len(specs) != 2 {
		t.Fatalf("%d documents, %v", len(specs), err)
	}
	for _, spec := range specs {
		containers := at(spec, "jobTemplate", "spec", "template", "spec", "containers").([]any)
		if got := at(containers[0], "command").([]any)[1:]; !same(got, words) {
			t.Errorf("%q, not %q", got, words)
		}
	}
}

// A kubeconfig is read as kubectl reads it: several files, files beside it, contexts with slashes.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("token", "sesame\n")
	write("endless", "#!/bin/sh\nexec yes\n")
	write("told", "#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *'\"cluster\":{\"config\":{\"audience\":\"x\"},\"server\":\"https://k.example/\"}'*) echo '{\"status\":{\"token\":\"told\"}}'; esac\n")
	write("login", "#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *ExecCredential*) ;; *) exit 1; esac\n"+
		`echo '{"kind":"ExecCredential","status":{"token":"'$WORD'"}}'`+"\n")
	first := write("a", `{contexts: [{name: "arn:x:cluster/prod", context: {cluster: c, user: file, namespace: own}}, {name: plugin, context: {cluster: c, user: exec}},
  {name: told, context: {cluster: c, user: told}}, {name: endless, context: {cluster: c, user: endless}}, {name: plain, context: {cluster: http, user: file}},
  {name: nobody, context: {cluster: c, user: nobody}}, {name: old, context: {cluster: c, user: old}}, {name: fails, context: {cluster: c, user: fails}}, {name: none, context: {cluster: nil, user: file}}]}`)
	second := write("b", `{current-context: plugin, clusters: [{name: http, cluster: {server: "http://k.example"}}, {name: c, cluster: {server: "https://k.example/",
    extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]}}], users: [{name: file, user: {tokenFile: token}},
  {name: exec, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, env: [{name: WORD, value: abc}]}}},
  {name: told, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./told, provideClusterInfo: true}}},
  {name: endless, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./endless}}},
  {name: fails, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false}}}, {name: old, user: {auth-provider: {name: gcp}}}]}`)
	t.Setenv("KUBECONFIG", first+string(filepath.ListSeparator)+second+string(filepath.ListSeparator)+filepath.Join(dir, "absent"))
	for _, c := range []struct{ where, context, namespace, name, token string }{
		{"", "", "", "kubernetes:plugin/default", "Bearer abc"},
		{"/a", "", "a", "kubernetes:plugin/a", "Bearer abc"},
		{":arn:x:cluster/prod", "arn:x:cluster/prod", "", "kubernetes:arn:x:cluster/prod/own", "Bearer sesame"},
		{":told", "told", "", "kubernetes:told/default", "Bearer told"},
		{":arn:x:cluster/prod/b", "arn:x:cluster/prod", "b", "kubernetes:arn:x:cluster/prod/b", "Bearer sesame"},
	} {
		context, namespace, err := Split(c.where)
		if err != nil || context != c.context || namespace != c.namespace {
			t.Errorf("%q: %q, %q, %v", c.where, context, namespace, err)
			continue
		}
		k, err := New(context, namespace)
		if err != nil || k.String() != c.name || k.client.base != "https://k.example" {
			t.Errorf("%q: %v, %v", c.where, k, err)
			continue
		}
		req := httptest.NewRequest("GET", "/", nil)
		if err := k.client.authorize(req); err != nil || req.Header.Get("Authorization") != c.token {
			t.Errorf("%q: %q, %v", c.where, req.Header, err)
		}
	}
	for context, says := range map[string]string{"old": "auth-provider is not supported", "fails": "gives no credentials", "other": "it has arn:x:cluster/prod, plugin", "endless": "prints more than",
		"plain": "by plain http", "nobody": `has no user "nobody"`, "none": "names no cluster"} {
		if _, err := New(context, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", context, err)
		}
	}
	for _, where := range []string{":", "/", "x", ":a/"} {
		if c, n, err := Split(where); err == nil {
			t.Errorf("%q is %q, %q", where, c, n)
		}
	}
	write("a", "{users: [{user: {token: [sesame")
	if _, err := New("", ""); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Error(err)
	}
}

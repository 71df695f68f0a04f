package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/store/memory"
)

func TestMain(m *testing.M) {
	command.GuardianMain()
	os.Exit(m.Run())
}

var quiet = slog.New(slog.DiscardHandler)

// text is an output that several write.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.Write(b)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.String()
}

// until waits for what a test is about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: " + what)
		}
	}
}

// manifest writes one, with these jobs.
func manifest(t *testing.T, path string, jobs ...string) {
	t.Helper()
	all := "version: 1\napp: shop\njobs:\n"
	for _, j := range jobs {
		all += "  - " + j + "\n"
	}
	if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
}

const hello = "{name: hello, schedule: '@every 1s', command: [echo, good morning]}"

// served is a server that runs, and what it printed.
type served struct {
	*serve.Server
	out    text
	states chan serve.State
	stop   func()
	ended  chan error
}

func running(t *testing.T, at serve.Store, path string, o serve.Options) *served {
	t.Helper()
	s := &served{states: make(chan serve.State, 100), ended: make(chan error, 1)}
	o.Output, o.Logger = &s.out, quiet
	o.OnState = func(state serve.State) { s.states <- state }
	var err error
	if s.Server, err = serve.New(at, serve.Manifest{From: path}, o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.ended <- s.Run(ctx) }()
	return s
}

// state is what the server says next that it does.
func (s *served) state(t *testing.T) serve.State {
	t.Helper()
	select {
	case state := <-s.states:
		return state
	case err := <-s.ended:
		t.Fatalf("it has ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it says nothing")
	}
	return ""
}

// A program serves a manifest in its own process, on a store that it has open: jobs run, a reload has others run, one
// that is wrong changes nothing, and at the end what runs is let go on.
// Holds: promise 10.
func TestAProgramServesAManifest(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Options{}).Store()
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	manifest(t, path, hello)
	s := running(t, serve.Store{Opened: st}, path, serve.Options{Drain: time.Minute})
	if state := s.state(t); state != serve.Serving || s.App() != "shop" || s.Jobs() != 1 {
		t.Fatalf("it is %s, of %s with %d jobs", state, s.App(), s.Jobs())
	}
	until(t, "a run of the first manifest", func() bool { return strings.Contains(s.out.String(), "hello | good morning\n") })

	began := filepath.Join(t.TempDir(), "began")
	slow := fmt.Sprintf("{name: slow, schedule: '@every 1s', command: {shell: 'touch %s; sleep 1; echo done'}}", began)
	manifest(t, path, slow)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "a run of the second", func() bool { _, err := os.Stat(began); return err == nil })

	manifest(t, path, "{name: wrong, schedule: 'never', command: [echo]}")
	var r *serve.Refusal
	if err := s.Reload(t.Context()); !errors.As(err, &r) || !strings.Contains(err.Error(), "never") {
		t.Errorf("a wrong manifest: %v", err)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.out.String(), "slow | done\n") {
		t.Errorf("what ran was not let go on: %q", s.out.String())
	}
	if err := s.Reload(t.Context()); !errors.Is(err, serve.ErrStopped) {
		t.Errorf("a reload afterwards: %v", err)
	}
	runs, err := st.History.Runs(t.Context(), history.Query{Job: "shop/slow", Limit: 100})
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	for _, r := range runs {
		if r.Outcome != run.Succeeded {
			t.Errorf("%s: %s", r.ID, r.Outcome)
		}
	}
}

// A file that changes is reloaded by itself, and a store that is opened for the jobs is this host's directory.
func TestAChangedFileIsServed(t *testing.T) {
	t.Parallel()
	c, err := store.Parse(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	c.Init = true
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	manifest(t, path, hello)
	s := running(t, serve.Store{Open: file.OpenConfig, Config: c}, path, serve.Options{StateDir: t.TempDir()})
	if state := s.state(t); state != serve.Serving {
		t.Fatal(state)
	}
	manifest(t, path, strings.ReplaceAll(hello, "morning", "evening"))
	for _, want := range []serve.State{serve.Reloading, serve.Serving} {
		if state := s.state(t); state != want {
			t.Errorf("it is %s, want %s", state, want)
		}
	}
	until(t, "a run of what changed", func() bool { return strings.Contains(s.out.String(), "hello | good evening\n") })
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A program refuses what a manifest or its options leave open before it opens any store, in its own words if it has
// some.
// Holds: promise 12, H2.
func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	never := func(context.Context, store.Config) (*store.Store, error) {
		t.Error("the store was opened")
		return nil, errors.New("it must not be")
	}
	c, err := store.Parse("redis://db/0")
	if err != nil {
		t.Fatal(err)
	}
	fleet, alone := serve.Store{Open: never, Config: c, Fleet: true}, serve.Store{Open: never, Config: c}
	global := strings.TrimSuffix(hello, "}") + ", policy: {concurrency_scope: global}}"
	own := strings.TrimSuffix(hello, "}") + ", policy: {concurrency_scope: host}}"
	for name, of := range map[string]struct {
		at   serve.Store
		job  string
		want error
	}{
		"no scope":        {fleet, hello, serve.ErrNoScope},
		"global on a dir": {alone, global, serve.ErrReach},
		"no host's store": {fleet, own, serve.ErrNoHost},
	} {
		manifest(t, path, of.job)
		for _, cure := range []string{"", "ask Ann"} {
			s, err := serve.New(of.at, serve.Manifest{From: path}, serve.Options{Logger: quiet, Cure: func(*serve.Refusal) string { return cure }})
			if err != nil {
				t.Fatal(name, err)
			}
			err = s.Run(t.Context())
			var r *serve.Refusal
			if !errors.As(err, &r) || !errors.Is(err, of.want) || !strings.HasSuffix(err.Error(), cure) || r.Cure == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, made := range map[string]func() error{
		"no store": func() error {
			_, err := serve.New(serve.Store{}, serve.Manifest{From: path}, serve.Options{})
			return err
		},
		"no manifest": func() error { _, err := serve.New(fleet, serve.Manifest{}, serve.Options{}); return err },
		"a secret": func() error {
			_, err := serve.New(fleet, serve.Manifest{From: path, Secret: "hunter2"}, serve.Options{})
			return err
		},
		"a scope": func() error {
			_, err := serve.New(fleet, serve.Manifest{From: path}, serve.Options{DefaultScope: job.Scope("town")})
			return err
		},
	} {
		var r *serve.Refusal
		if err := made(); !errors.As(err, &r) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

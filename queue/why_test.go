package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// A reader who asks why a task waits gets every reason that there is, and none if it is about to be fetched.
// Holds: promise 23.
func TestWhyATaskWaits(t *testing.T) {
	for what, c := range map[string]struct {
		spec    task.Spec
		prepare func(*testing.T, *store.Store, lease.Ref)
		want    []string // what the sentences begin with, or hold
	}{
		"it is next":     {spec: task.Spec{Queue: "q", Kind: "k"}},
		"no worker":      {task.Spec{Queue: "other", Kind: "k"}, nil, []string{"no worker works queue other"}},
		"unknown kind":   {task.Spec{Queue: "q", Kind: "odd"}, nil, []string{"no worker of queue q knows kind odd"}},
		"its instant":    {task.Spec{Queue: "q", Kind: "k", Delay: time.Hour}, nil, []string{"it is not due before "}},
		"no room":        {task.Spec{Queue: "q", Kind: "k"}, occupy("k", ""), []string{"1 slot of 1 worker could take it, and none is free"}},
		"its limit":      {task.Spec{Queue: "q", Kind: "k", Limit: &task.Limit{Key: "l"}}, occupy("k", "l"), []string{`its limit "l" lets 1 run at the same time; task 1 does, on h pid 7, since `}},
		"room elsewhere": {task.Spec{Queue: "q", Kind: "k"}, occupyBeside, nil},
		"its rate": {task.Spec{Queue: "q", Kind: "k"}, func(t *testing.T, s *store.Store, w lease.Ref) {
			declare(t, s)
			occupy("k", "")(t, s, w)
		}, []string{"the rate of its kind, one in every 1h0m0s, is used up until "}},
		"two pauses, and its instant": {task.Spec{Queue: "q", Kind: "k", Delay: time.Hour}, func(t *testing.T, s *store.Store, _ lease.Ref) {
			for _, p := range []driver.Pause{{Queue: "q", By: "ann", Why: "deploy"}, {Kind: "k", By: "bob"}, {Queue: "unlike"}} {
				if err := s.Tasks.Pause(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"it is not due before ", "paused: ", "paused: "}},
	} {
		t.Run(what, func(t *testing.T) {
			s := memory.New(memory.Options{}).Store()
			w := whyWorker(t, s, "w")
			if c.prepare != nil {
				c.prepare(t, s, w)
			}
			id := whyEnqueue(t, s, c.spec)
			got, held, _, err := s.Tasks.Task(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			why, err := queue.Why(t.Context(), s.Tasks, got, held, time.Now(), time.Time{})
			if err != nil || len(why) != len(c.want) {
				t.Fatalf("%q, %v; want %q", why, err, c.want)
			}
			for i := range why {
				if !strings.HasPrefix(why[i], c.want[i]) {
					t.Errorf("%q; want %q", why[i], c.want[i])
				}
			}
		})
	}
}

// A suspect may wait for others like it, whatever room there is.
func TestWhyASuspectWaits(t *testing.T) {
	s := memory.New(memory.Options{}).Store()
	whyWorker(t, s, "w")
	got, held, _, err := s.Tasks.Task(t.Context(), whyEnqueue(t, s, task.Spec{Queue: "q", Kind: "k"}))
	if err != nil {
		t.Fatal(err)
	}
	for crashes, want := range []string{"a worker died while it had it: ", "it took 1 worker down: ", "it took 2 workers down: "} {
		got.Suspect, got.Crashes = true, crashes
		if why, err := queue.Why(t.Context(), s.Tasks, got, held, time.Now(), time.Time{}); err != nil || len(why) != 1 || !strings.HasPrefix(why[0], want) {
			t.Errorf("%q, %v; want %q", why, err, want)
		}
	}
}

// whyWorker is one that has a single slot, and knows kind k.
func whyWorker(t *testing.T, s *store.Store, name string) lease.Ref {
	t.Helper()
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.Key(name), Holder: lease.Holder{ID: lease.NewNonce()}, TTL: lease.DefaultTTL}})
	if err != nil {
		t.Fatal(err)
	}
	ref := r.Answers[0].Record.Ref()
	if err := s.Queue.Register(t.Context(), driver.Process{Lease: ref, Host: "h", PID: 7, Queues: []string{"q"}, Kinds: []string{"k"}, Slots: 1}); err != nil {
		t.Fatal(err)
	}
	return ref
}

func whyEnqueue(t *testing.T, s *store.Store, spec task.Spec) task.ID {
	t.Helper()
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	e, err := s.Queue.Enqueue(t.Context(), []task.Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	return e[0].ID
}

// occupy has the worker run a task of a kind, under a limit or none.
func occupy(kind, limit string) func(*testing.T, *store.Store, lease.Ref) {
	return func(t *testing.T, s *store.Store, w lease.Ref) {
		t.Helper()
		spec := task.Spec{Queue: "q", Kind: kind}
		if limit != "" {
			spec.Limit = &task.Limit{Key: limit}
		}
		whyEnqueue(t, s, spec)
		if f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 1}); err != nil || len(f.Tasks) != 1 {
			t.Fatal(f, err)
		}
	}
}

func occupyBeside(t *testing.T, s *store.Store, w lease.Ref) {
	occupy("k", "")(t, s, w)
	whyWorker(t, s, "another")
}

func declare(t *testing.T, s *store.Store) {
	if err := s.Queue.Declare(t.Context(), map[string]task.Rate{"k": {Count: 1, Per: time.Hour}}); err != nil {
		t.Fatal(err)
	}
}

// A Client that was closed says so, however it is asked.
func TestAClosedClientTakesNothingIn(t *testing.T) {
	c := queue.NewClient(queue.ClientOptions{Store: memory.New(memory.Options{}).Store().Queue})
	c.Close()
	if _, err := c.Enqueue(t.Context(), task.Spec{Kind: "k"}); err != queue.ErrClosed {
		t.Error(err)
	}
	if _, err := c.EnqueueMany(t.Context(), []task.Spec{{Kind: "k"}}); err != queue.ErrClosed {
		t.Error(err)
	}
}

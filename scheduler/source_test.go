package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

const shop, thief = "https://shop.example/.well-known/cron-manifest", "https://thief.example/.well-known/cron-manifest"

// from is a job of an application that chose its app by itself; without a source it is on the operator's word.
func from(t *testing.T, source string, target run.Target) *scheduler.Job {
	t.Helper()
	j := newJob(t, "* * * * *", target, nil)
	j.Spec.Source = source
	return j
}

// Rule T14: an application that chose its app by itself has it as long as nobody else registers it.
// Holds: T14.
func TestAnAppIsOneSources(t *testing.T) {
	own := func(t *testing.T, w *world, h *host) { h.load(t, from(t, shop, w.target(0))) }
	ended := func(t *testing.T, w *world, h *host) { own(t, w, h); h.load(t) }
	for _, c := range []struct {
		name   string
		before func(*testing.T, *world, *host) // what was registered
		source string
		ok     bool
	}{
		{"nothing is registered", func(*testing.T, *world, *host) {}, thief, true},
		{"its own", own, shop, true},
		{"another application's", own, thief, false},
		{"the operator's", func(t *testing.T, w *world, h *host) { h.load(t, from(t, "", w.target(0))) }, thief, false},
		{"the operator's word", own, "", true},
		{"all of it was removed", ended, thief, false},
		{"its own, removed", ended, shop, true},
		{"its own, and a key of --once-per", func(t *testing.T, w *world, h *host) {
			own(t, w, h)
			w.register(t, "app/backup", `{"schedules":["@daily"],"timezone":"UTC"}`)
		}, shop, false},
		{"what cannot be read", func(t *testing.T, w *world, _ *host) { w.register(t, "app/j", "else") }, thief, false},
		{"another app's", func(t *testing.T, w *world, _ *host) { w.register(t, "apple/j", `{"source":"x"}`) }, thief, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c.before(t, w, w.host(1, 0))
				before := w.registry(t)
				time.Sleep(time.Minute)
				h := w.host(2, 0)
				err := h.Load(t.Context(), []*scheduler.Job{from(t, c.source, w.target(0))})
				if c.ok != (err == nil) || !c.ok && !errors.Is(err, scheduler.ErrOtherSource) {
					t.Errorf("loaded: %v", err)
				}
				if after := w.registry(t); !c.ok && after != before {
					t.Errorf("it was refused, and registered all the same:\n%s\nbefore:\n%s", after, before)
				}
			})
		})
	}
}

// A source whose app an operator gave to another one fires nothing of the app any more, and can neither reload its
// jobs nor end them.
// Holds: T14.
func TestTheOperatorsWordEndsAnothersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stolen, more := newWorld(t), newWorld(t), newWorld(t)
		squatter, owner := w.host(1, 0), w.host(2, 0)
		other := from(t, thief, more.target(0))
		other.Spec.Name = "other" // which the owner has not
		squatter.start(t, from(t, thief, stolen.target(0)), other)
		time.Sleep(5*time.Minute + time.Second)
		if len(stolen.ran()) != 5 || len(more.ran()) != 5 {
			t.Fatalf("who came first ran %d and %d ticks, want 5", len(stolen.ran()), len(more.ran()))
		}
		owner.start(t, from(t, "", w.target(0))) // the same schedule, word for word
		time.Sleep(10 * time.Minute)
		if n, m, own := len(stolen.ran()), len(more.ran()), len(w.ran()); n != 5 || m != 5 || own != 10 {
			t.Errorf("after the operator's word: %d and %d ticks of the other's, want 5, and %d of the owner's, want 10",
				n, m, own)
		}
		before := w.registry(t)
		for name, jobs := range map[string][]*scheduler.Job{"the same": {from(t, thief, stolen.target(0))}, "no jobs": nil} {
			if err := squatter.Load(t.Context(), jobs); !errors.Is(err, scheduler.ErrOtherSource) {
				t.Errorf("a reload of %s: %v", name, err)
			}
			_, err := scheduler.PrepareAll(t.Context(), []scheduler.Change{{Server: squatter.Server, Jobs: jobs}})
			if !errors.Is(err, scheduler.ErrOtherSource) || !strings.Contains(err.Error(), thief) {
				t.Errorf("a reload of %s: %v", name, err)
			}
		}
		if after := w.registry(t); after != before {
			t.Errorf("the reload changed what is registered:\n%s\nbefore:\n%s", after, before)
		}
		squatter.stop()
		owner.stop()
	})
}

// A fire that names the job takes the app as it is, and keeps no other source from having it.
// Holds: T14.
func TestAFireByNameLeavesTheSource(t *testing.T) {
	for _, registered := range []string{"", shop} {
		for _, source := range []string{"", shop, thief} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				h.load(t, from(t, registered, w.target(0)))
				before := w.registry(t)
				time.Sleep(3*time.Minute + time.Second)
				j := from(t, source, w.target(0))
				at := time.Now().Truncate(time.Minute)
				if _, a, err := h.backend.Trigger(t.Context(), t.Context(), j, at); err != nil || a.Status != tick.Won {
					t.Errorf("registered by %q, fired by %q: %+v, %v", registered, source, a, err)
				}
				b := scheduler.Backfill{From: at.Add(-2 * time.Minute), To: at, Concurrency: 1}
				if ran, err := h.backfill(t, t.Context(), j, b); err != nil || ran != 2 {
					t.Errorf("registered by %q, back-filled by %q: %d, %v", registered, source, ran, err)
				}
				if after := w.registry(t); after != before {
					t.Errorf("registered by %q, fired by %q: it is now %s", registered, source, after)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		time.Sleep(time.Minute)
		j, at := from(t, shop, w.target(0)), time.Now().Truncate(time.Minute)
		if _, _, err := h.backend.Trigger(t.Context(), t.Context(), j, at); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.registry(t), shop) {
			t.Errorf("the first one to fire it is not known: %s", w.registry(t))
		}
	})
}

func (h *host) load(t *testing.T, jobs ...*scheduler.Job) {
	t.Helper()
	if err := h.Load(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}

func (w *world) register(t *testing.T, name, definition string) {
	t.Helper()
	one := []tick.JobRequest{{Name: name, Definition: definition}}
	if _, err := w.b.Store().Ticks.SetJobs(t.Context(), one); err != nil {
		t.Fatal(err)
	}
}

// registry is all that is registered, in words.
func (w *world) registry(t *testing.T) string {
	t.Helper()
	known, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range known {
		fmt.Fprintln(&b, k.Name, k.Definition, k.Generation, k.Removed)
	}
	return b.String()
}

// Rule T14: between a server's first look at who has the app and its registration, it ends definitions, which takes a
// while. Who has come meanwhile is not registered over.
// Holds: T14.
func TestWhoComesDuringALoadIsNotRegisteredOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owner, squatter := w.host(1, 0), w.host(2, 0)
		looked := &afterJobs{Store: squatter.backend.Ticks, then: func() { owner.load(t, from(t, "", w.target(0))) }}
		squatter.backend.Ticks = looked
		_, err := squatter.Prepare(t.Context(), []*scheduler.Job{from(t, thief, w.target(0))})
		if !errors.Is(err, scheduler.ErrOtherSource) {
			t.Errorf("it is prepared: %v", err)
		}
		if strings.Contains(w.registry(t), thief) {
			t.Errorf("it is registered over the owner: %s", w.registry(t))
		}
	})
}

// afterJobs does something once, after the registrations were read for the first time.
type afterJobs struct {
	tick.Store
	then func()
}

func (s *afterJobs) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	known, err := s.Store.Jobs(ctx, q)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return known, err
}

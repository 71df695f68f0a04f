package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// RunHeldSlots checks that slots of limits are held back as grants of leases are (rules Q5, L9): a server that
// took over may not know who has them. write changes a namespace's record: nothing is granted before until.
// forget changes it so that it knows another server; nil where there is no other.
// Holds: Q5.
func RunHeldSlots(t *testing.T, open Open, url string, write func(t *testing.T, c store.Config, until time.Time), forget func(t *testing.T, c store.Config)) {
	t.Helper()
	changes := map[string]func(w *world){
		"while grants are": func(w *world) { write(w.T, w.config, w.now(w.s).Add(w.s.Properties.MaxTTL)) },
	}
	t.Run("and keep no other kind or queue waiting", func(t *testing.T) { heldInFront(t, open, url, write) })
	if forget != nil {
		changes["by who meets another server"] = func(w *world) { forget(w.T, w.config) }
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open, url)
			worker := w.worker(w.s)
			discarded, displaced := limited("discard", 1), limited("displace", 1)
			discarded.Limit.OnContention, displaced.Limit.OnContention = task.Discard, task.Displace
			held := w.add(limited("l", 1), limited("l", 1), discarded, displaced)
			other := some()
			other.Kind = "free"
			free := w.add(other, other)

			change(w)
			f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: 10, Suspects: true})
			w.order("what is given meanwhile", ids(f.Tasks), free)
			w.fetches("what is given then", worker, 10)
			for _, id := range held {
				if state := w.task(id).State; state != task.Available && state != task.Blocked {
					w.Errorf("task %d is %s meanwhile", id, state)
				}
			}
			if !f.NextDue.IsZero() && f.NextDue.Sub(f.Now) > w.s.Properties.MaxTTL+time.Second {
				w.Errorf("asked again at %v, from %v", f.NextDue, f.Now)
			}
			a := w.acquire(w.s, request("k"))
			equal(w, "Acquire meanwhile", a.Status, lease.HeldBack)
			opened := w.process()
			w.saysHeld(opened, held[0], true)
			unlimited := w.add1(other)
			w.saysHeld(opened, unlimited, false)

			write(t, w.config, w.now(w.s).Add(-time.Microsecond))
			w.saysHeld(w.process(), held[0], false)
			w.fetches("what is given in the end", worker, 10, held[0], held[2], held[3], unlimited)
		})
	}
}

// saysHeld looks, as a process that has just opened the store, whether a task is said to wait for the hold-back.
func (w *world) saysHeld(s *store.Store, id task.ID, want bool) {
	w.Helper()
	t, slots, ok, err := s.Tasks.Task(w.ctx, id)
	if err != nil || !ok {
		w.Fatalf("task %d: %v, %v", id, ok, err)
	}
	why, err := queue.Why(w.ctx, s.Tasks, t, slots, w.now(s), s.Properties.HoldUntil)
	w.check("Why", err)
	said := slices.ContainsFunc(why, func(s string) bool { return strings.HasPrefix(s, "slots of limits are held back for ") })
	if said != want {
		w.Errorf("why task %d waits: %q; want the hold-back said: %v", id, why, want)
	}
}

// heldInFront: many that are held back, each under a limit of its own, stand before others.
func heldInFront(t *testing.T, open Open, url string, write func(t *testing.T, c store.Config, until time.Time)) {
	w := newWorld(t, open, url)
	worker := w.worker(w.s)
	specs := make([]task.Spec, 1200)
	for i := range specs {
		specs[i] = limited(fmt.Sprint("l", i), 1)
	}
	for all := range slices.Chunk(specs, 400) {
		w.add(all...)
	}
	kind, other := some(), some()
	kind.Kind, other.Queue = "other", "other"
	want := w.add(kind, other)
	write(t, w.config, w.now(w.s).Add(w.s.Properties.MaxTTL))
	var got []task.ID
	for range 3 {
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: 5, Suspects: true, Queues: []string{"q", "other"}})
		got = append(got, ids(f.Tasks)...)
		if !f.NextDue.IsZero() && f.NextDue.Sub(f.Now) < time.Second {
			w.Errorf("asked again in %v", f.NextDue.Sub(f.Now))
		}
	}
	slices.Sort(got)
	w.order("what is given of another kind and queue", got, want)
}

package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// days is a queue over days of virtual time, with what was told of it.
type days struct {
	*testing.T
	rng    *rand.Rand
	q      driver.Store
	a      driver.Admin
	ref    lease.Ref
	specs  map[task.ID]task.Spec
	ended  map[task.ID]time.Time
	holder map[string]task.ID // of a unique key, the last one
	paced  []time.Time        // when tasks of the kind with a rate were given
}

const (
	keepFor = 20 * time.Hour
	window  = 5 * time.Hour
)

var pace = task.Rate{Count: 4, Per: time.Hour, Burst: 2}

// Tasks that wait for a time (delays, windows, expiry, rates, retention) are right to the microsecond: in virtual time
// everything can be compared exactly, over days.
// Holds: promise 17.
func TestQueueOverDays(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{MaxTTL: 1000 * time.Hour}).Store()
				r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce()}, TTL: 1000 * time.Hour}})
				if err != nil {
					t.Fatal(err)
				}
				d := &days{T: t, rng: rand.New(rand.NewPCG(seed, 1)), q: s.Queue, a: s.Tasks, ref: r.Answers[0].Record.Ref(),
					specs: map[task.ID]task.Spec{}, ended: map[task.ID]time.Time{}, holder: map[string]task.ID{}}
				d.pass()
			})
		})
	}
}

func (d *days) pass() {
	ctx := d.Context()
	if err := d.q.Declare(ctx, map[string]task.Rate{"paced": pace}); err != nil {
		d.Fatal(err)
	}
	for range 400 {
		switch d.rng.IntN(3) {
		case 0:
			d.enqueue(ctx)
		case 1:
			d.work(ctx)
		case 2:
			d.maintain(ctx)
		}
		time.Sleep(d.upTo(20 * time.Minute))
	}
	d.judgePace()
}

// upTo is a random time in whole µs, as stores keep them.
func (d *days) upTo(most time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(most.Microseconds())) * time.Microsecond
}

func (d *days) enqueue(ctx context.Context) {
	now := time.Now()
	s := task.Spec{Queue: "q", Kind: "plain"}
	switch d.rng.IntN(4) {
	case 0:
		s.Delay = d.upTo(10 * time.Hour)
	case 1:
		s.Kind = "paced"
	case 2:
		s.ExpiresAt = now.Add(d.upTo(3*time.Hour) + time.Second)
	case 3:
		s.Kind, s.Unique = "unique", &task.Unique{Key: fmt.Sprint(d.rng.IntN(3)), Window: window}
	}
	if err := s.Check(); err != nil {
		d.Fatal(err)
	}
	answers, err := d.q.Enqueue(ctx, []task.Spec{s})
	if err != nil {
		d.Fatal(err)
	}
	a := answers[0]
	if s.Unique != nil {
		last := d.holder[s.Unique.Key]
		end, over := d.ended[last]
		free := last == 0 || over && !now.Before(end.Add(window))
		if free != (a.Answer == task.New) || !free && a.ID != last {
			d.Errorf("at %v: %+v; task %d ended at %v", now, a, last, end)
		}
		d.holder[s.Unique.Key] = a.ID
	}
	if a.Answer == task.New {
		s.RunAt = now.Add(s.Delay)
		d.specs[a.ID] = s
	}
}

// work takes what there is, and checks that it is all that there may be.
func (d *days) work(ctx context.Context) {
	now := time.Now()
	f, err := d.q.Fetch(ctx, driver.FetchRequest{Worker: d.ref, Queues: []string{"q"}, Max: 1000})
	if err != nil || f.Gone {
		d.Fatal(f, err)
	}
	for _, t := range f.Tasks {
		s := d.specs[t.ID]
		if now.Before(s.RunAt) || !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) {
			d.Errorf("task %d, due at %v and of use until %v, was given at %v", t.ID, s.RunAt, s.ExpiresAt, now)
		}
		if s.Kind == "paced" {
			d.paced = append(d.paced, now)
		}
		answers, err := d.q.Finish(ctx, d.ref, []driver.Completion{{Ref: t.Ref, Verdict: driver.Success}})
		if err != nil || answers[0] != driver.OK {
			d.Fatal(answers, err)
		}
		d.ended[t.ID] = time.Now()
	}
	var next time.Time
	for id, s := range d.specs {
		if d.ended[id].IsZero() && s.RunAt.After(now) && (next.IsZero() || s.RunAt.Before(next)) {
			next = s.RunAt
		}
		usable := s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
		if d.ended[id].IsZero() && usable && s.Kind != "paced" && !now.Before(s.RunAt) {
			d.Errorf("task %d, due since %v, was not given at %v", id, s.RunAt, now)
		}
	}
	if !f.NextDue.Equal(next) {
		d.Errorf("the next one is due at %v; the fetch told %v", next, f.NextDue)
	}
}

// maintain keeps what ended for keepFor, or for as long as its window is open.
func (d *days) maintain(ctx context.Context) {
	now := time.Now()
	r := driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: keepFor}}
	for range 2 { // what holds a window is freed by the first look
		if _, err := d.q.Maintain(ctx, r); err != nil {
			d.Fatal(err)
		}
	}
	for id, s := range d.specs {
		t, _, there, err := d.a.Task(ctx, id)
		if err != nil {
			d.Fatal(err)
		}
		end := d.ended[id]
		if want := end.IsZero() || !end.Before(now.Add(-keepFor)); there != want {
			d.Errorf("task %d ended at %v; it is there at %v: %v", id, end, now, there)
		}
		expired := !s.ExpiresAt.IsZero() && end.IsZero() && !now.Before(s.ExpiresAt)
		if there && expired != (t.Reason == task.ReasonExpired) {
			d.Errorf("task %d, of use until %v, is %s at %v", id, s.ExpiresAt, t.State, now)
		}
	}
}

// judgePace: within any time there are at most the burst and what that time refills.
func (d *days) judgePace() {
	for i, from := range d.paced {
		for j := i; j < len(d.paced); j++ {
			most := pace.Burst + int(d.paced[j].Sub(from)*time.Duration(pace.Count)/pace.Per)
			if n := j - i + 1; n > most {
				d.Errorf("%d tasks of the kind were given from %v to %v; at most %d may be", n, from, d.paced[j], most)
			}
		}
	}
	if len(d.paced) == 0 {
		d.Error("no task of the kind with a rate was ever given")
	}
}

// A hundred thousand tasks behind one key cost a fetch of the others nothing.
func BenchmarkFetchBesideBlocked(b *testing.B) {
	for _, behind := range []int{0, 100_000} {
		b.Run(fmt.Sprint(behind, " blocked"), func(b *testing.B) {
			s := New(Options{MaxTTL: time.Hour}).Store()
			r, err := s.Leases.Acquire(b.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce()}, TTL: time.Hour}})
			if err != nil {
				b.Fatal(err)
			}
			ref := r.Answers[0].Record.Ref()
			specs := make([]task.Spec, behind)
			for i := range specs {
				specs[i] = task.Spec{Queue: "q", Kind: "k", Limit: &task.Limit{Key: "l"}}
			}
			if _, err := s.Queue.Enqueue(b.Context(), specs); err != nil {
				b.Fatal(err)
			}
			fetch := func() []driver.Fetched {
				f, err := s.Queue.Fetch(b.Context(), driver.FetchRequest{Worker: ref, Queues: []string{"q"}, Max: 10})
				if err != nil {
					b.Fatal(err)
				}
				return f.Tasks
			}
			fetch()
			for b.Loop() {
				if _, err := s.Queue.Enqueue(b.Context(), []task.Spec{{Queue: "q", Kind: "k"}}); err != nil {
					b.Fatal(err)
				}
				for _, t := range fetch() {
					if _, err := s.Queue.Finish(b.Context(), ref, []driver.Completion{{Ref: t.Ref, Verdict: driver.Success}}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// The memory store answers a repeated end as the directory, MySQL and Redis do, which do not keep whose run it was
// once the task is given anew (lifecycle.Task.Repeats): it is what walks compare these with.
func TestARepeatedEndIsKnownByItsToken(t *testing.T) {
	s := New(Options{MaxTTL: time.Hour}).Store()
	var workers []lease.Ref
	for range 3 {
		answers, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce()}, TTL: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, answers.Answers[0].Record.Ref())
	}
	if _, err := s.Queue.Enqueue(t.Context(), []task.Spec{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	fetch := func(worker lease.Ref) driver.Ref {
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 1})
		if err != nil || len(f.Tasks) != 1 {
			t.Fatal(f, err)
		}
		return f.Tasks[0].Ref
	}
	end := driver.Completion{Ref: fetch(workers[0]), Verdict: driver.Return}
	expect := func(when string, i int, want driver.Status) {
		t.Helper()
		if got, err := s.Queue.Finish(t.Context(), workers[i], []driver.Completion{end}); err != nil || got[0] != want {
			t.Errorf("%s, worker %d: %v, %v", when, i, got, err)
		}
	}
	expect("at first", 0, driver.OK)
	expect("repeated", 1, driver.Gone)
	fetch(workers[1])
	for i := range workers {
		expect("given anew", i, driver.OK)
	}
}

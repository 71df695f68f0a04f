package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// RunWaits checks that each step which has a not_after is judged by when it is carried out, and not by when it
// began to wait for somebody else's lock (rule L1). lock has another session lock what there is in a namespace
// of one of leases, jobs, ticks and limits, until unlock is called. Steps that are named in except are left
// out.
func RunWaits(t *testing.T, open Open, url string, lock func(t *testing.T, c store.Config, what string) (unlock func()), except ...string) {
	for _, step := range waits {
		if slices.Contains(except, step.name) {
			continue
		}
		for _, what := range step.locks {
			t.Run(step.name+" for "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, open, url)
				step.waits(w, func() (unlock func()) { return lock(t, w.config, what) })
			})
		}
	}
}

func (step *wait) waits(w *world, lock func() (unlock func())) {
	late := step.prepare(w)
	unlock := sync.OnceFunc(lock())
	defer unlock()
	bound := w.now(w.s).Add(300 * time.Millisecond)
	answer := make(chan bool, 1)
	go func() { answer <- late(bound) }()
	w.until(bound)
	select {
	case nothing := <-answer:
		if !step.passes || !nothing {
			w.Errorf("it was answered without waiting for the lock")
		}
		return
	default:
	}
	unlock()
	equal(w, "it is late when the lock is free", <-answer, true)
}

// A wait prepares a step, and says whether it came too late for a not_after.
type wait struct {
	name    string
	locks   []string
	prepare func(*world) func(notAfter time.Time) bool
	passes  bool // it may also pass over what is locked, and do nothing
}

var waits = []wait{
	{"an acquire", []string{"leases"}, acquireWaits, false},
	{"a renewal", []string{"leases"}, renewalWaits, false},
	{"a claim", []string{"jobs"}, claimWaits, false},
	{"a start", []string{"leases", "ticks"}, startWaits, false},
	{"a takeover", []string{"leases", "ticks"}, takeWaits, false},
	{"a fetch", []string{"limits"}, fetchWaits, true},
}

func acquireWaits(w *world) func(time.Time) bool {
	w.release(w.s, w.hold(w.s, "k").Ref()) // the row is there, and free
	return func(notAfter time.Time) bool {
		req := request("k")
		req.NotAfter = notAfter
		r, err := w.s.Leases.Acquire(w.ctx, []lease.AcquireRequest{req})
		return w.lateLease("Acquire", r, err)
	}
}

func renewalWaits(w *world) func(time.Time) bool {
	ref := w.hold(w.s, "k").Ref()
	return func(notAfter time.Time) bool {
		r, err := w.s.Leases.Renew(w.ctx, []lease.RenewRequest{{Ref: ref, TTL: long, NotAfter: notAfter}})
		return w.lateLease("Renew", r, err)
	}
}

func (w *world) lateLease(what string, r lease.Reply, err error) bool {
	if err != nil || len(r.Answers) != 1 {
		w.Errorf("%s: %+v, %v", what, r, err)
		return false
	}
	return r.Answers[0].Status == lease.Late
}

func claimWaits(w *world) func(time.Time) bool {
	ref := w.server(w.s)
	w.setJob(w.s, "j", "{}", w.at(0))
	return func(notAfter time.Time) bool {
		a, err := w.s.Ticks.Claim(w.ctx, []tick.ClaimRequest{{Job: "j", At: w.at(1), Lease: ref, NotAfter: notAfter}})
		if err != nil || len(a) != 1 {
			w.Errorf("Claim: %+v, %v", a, err)
			return false
		}
		return a[0].Status == tick.Late
	}
}

func startWaits(w *world) func(time.Time) bool {
	ref := w.server(w.s)
	w.won(w.s, "j", w.at(1), ref)
	r := run.Record{ID: run.NewID(), Job: "j", Tick: w.at(1), Owner: ref.Owner, Token: ref.Token}
	return func(notAfter time.Time) bool {
		a, err := w.s.Ticks.Start(w.ctx, []tick.StartRequest{{Run: r, Claim: ref, Lease: ref, NotAfter: notAfter}})
		if err != nil || len(a) != 1 {
			w.Errorf("Start: %+v, %v", a, err)
			return false
		}
		return a[0].Status == tick.Late
	}
}

func takeWaits(w *world) func(time.Time) bool {
	old, ref := w.server(w.s), w.server(w.s)
	w.won(w.s, "j", w.at(1), old)
	w.lapse(w.s, old)
	return func(notAfter time.Time) bool {
		a, err := w.s.Ticks.Take(w.ctx, tick.TakeRequest{Job: "j", At: w.at(1), From: old, Lease: ref, NotAfter: notAfter})
		return w.lateTick("Take", a, err)
	}
}

func (w *world) lateTick(what string, a tick.Answer, err error) bool {
	if err != nil {
		w.Errorf("%s: %v", what, err)
	}
	return a.Status == tick.Late
}

// fetchWaits is of a task with a limit: whoever gives it locks that.
func fetchWaits(w *world) func(time.Time) bool {
	worker := w.worker(w.s)
	w.add1(limited("l", 1))
	return func(notAfter time.Time) bool {
		f, err := w.s.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Max: 1, Queues: []string{"q"}, NotAfter: notAfter})
		if err != nil {
			w.Errorf("Fetch: %v", err)
		}
		return f.Late || len(f.Tasks) == 0
	}
}

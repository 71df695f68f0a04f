//go:build linux

package million

import (
	"errors"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// straggler is the name of its ledger.
const straggler = "straggler"

// straggle is what a worker does that was stopped for longer than its lease: it is given tasks, its lease ends, others
// are given the tasks, and then it reports them as done. It does so again and again until all tasks were enqueued. It
// calls ready once it was given the first ones: before that nobody else is to take them all.
func (r *round) straggle(enqueued <-chan struct{}, ready func()) {
	defer ready()
	notes, err := newScribe(r.Ledger, straggler)
	if err != nil {
		r.Error(err)
		return
	}
	once := false
	given := func() { once = true; ready() }
	for r.Context().Err() == nil && !r.Failed() && !(once && closed(enqueued)) {
		if err := r.straggleOnce(watched{r.s.Queue, notes}, given); err != nil {
			r.Errorf("straggler: %v", err)
		}
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *round) straggleOnce(q watched, given func()) error {
	ask := lease.AcquireRequest{Key: lease.OnceKey(), Holder: lease.Holder{ID: lease.NewNonce(), Host: straggler}, TTL: r.TTL}
	got, err := r.s.Leases.Acquire(r.Context(), []lease.AcquireRequest{ask})
	if err != nil {
		return err
	}
	if got.Answers[0].Status != lease.OK {
		return errors.New("its lease is " + got.Answers[0].Status.String())
	}
	ref := lease.Ref{Key: ask.Key, Owner: ask.Holder.ID, Token: got.Answers[0].Record.Token}
	if err := q.Register(r.Context(), driver.Process{Lease: ref, Queues: []string{task.DefaultQueue}, Slots: 10}); err != nil {
		return err
	}
	f, err := q.Fetch(r.Context(), driver.FetchRequest{Worker: ref, Queues: []string{task.DefaultQueue}, Max: 10})
	if err != nil || len(f.Tasks) == 0 {
		return err
	}
	given()
	if r.lapses && testsize.Long() {
		time.Sleep(r.TTL + time.Second)
	} else if _, err := r.s.Leases.Release(r.Context(), []lease.Ref{ref}); err != nil {
		return err
	}
	r.finish(q, ref, f.Tasks, driver.Gone) // while they are nobody's, or somebody's
	for i := range f.Tasks {
		if err := r.replaced(&f.Tasks[i]); err != nil {
			return err
		}
	}
	r.finish(q, ref, f.Tasks, driver.Gone) // when others have done them
	return nil
}

// replaced waits until another worker was given the task.
func (r *round) replaced(f *driver.Fetched) error {
	const patience = 10 * time.Minute
	for end := time.Now().Add(patience); time.Now().Before(end) && !r.Failed(); time.Sleep(100 * time.Millisecond) {
		t, _, there, err := r.s.Tasks.Task(r.Context(), f.ID)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) {
			return err
		}
		if there && t.Token != f.Token && t.State.Final() {
			return nil
		}
	}
	if r.Failed() {
		return nil
	}
	return errors.New("what it lost was not done by others")
}

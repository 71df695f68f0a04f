package scheduler

import (
	"fmt"
	"sync"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// happeningSize is how many bytes a Happening counts for, besides its Output, while it waits for the hooks.
const happeningSize = 1 << 10

// notifier notifies the Backend's Hooks; nothing waits for them.
type notifier struct {
	b     *Backend
	queue aside.Queue
}

// later calls do with the hooks, once they have received everything before it. what and the attributes describe it
// to people, if there is no room for it.
func (n *notifier) later(size int, do func(Hooks), attrs ...any) {
	hooks := n.b.Hooks
	if hooks == nil || n.queue.Do("happening", happeningSize+size, func() { do(hooks) }) {
		return
	}
	n.b.log().Warn("reports to hooks are dropped, because the hooks have not taken earlier ones",
		append([]any{"event", "hooks-behind"}, attrs...)...)
}

// notify tells the hooks what happened, if there is an event for it.
func (n *notifier) notify(h Happening) {
	if h.On != "" {
		n.later(len(h.Output), func(hooks Hooks) { hooks.Tell(h) },
			"on", h.On, "job", h.Job, "tick", stamp(h.Tick), "run_id", h.Run.ID)
	}
}

// started notifies that a run begins, of a tick that is run after all if again is true; call over when it has ended.
func (n *notifier) started(r run.Record, again bool) (over func()) {
	done := make(chan struct{})
	if n.b.Observe != nil {
		e := eventFor(r, observe.Started)
		e.Again = again
		n.b.Observe(e)
	}
	n.notify(Happening{On: job.OnStart, Job: r.Job, Tick: r.Tick, Run: r, Over: done})
	return sync.OnceFunc(func() { close(done) })
}

// ended notifies of an outcome that the store has accepted from this process.
func (n *notifier) ended(r run.Record, heldBy string, output []byte) {
	if r.ID == "" && r.Outcome.Ran() { // that run's end was told when the tick was taken over
		return
	}
	if r.ID == "" {
		n.observe(r, observe.Skipped, 1)
	} else {
		n.observe(r, observe.Ended, 1)
	}
	on, ok := eventOf(r.Outcome, r.Reason)
	if !ok {
		return
	}
	h := Happening{On: on, Job: r.Job, Tick: r.Tick, Outcome: r.Outcome, Reason: r.Reason, HeldBy: heldBy, Output: output}
	if r.ID != "" {
		h.Run = r
	}
	n.notify(h)
}

// observe tells the Backend's observer.
func (n *notifier) observe(r run.Record, on observe.On, count int) {
	if n.b.Observe != nil {
		e := eventFor(r, on)
		e.Count = count
		n.b.Observe(e)
	}
}

func eventFor(r run.Record, on observe.On) observe.Event {
	e := observe.Event{On: on, Of: observe.Cron, Name: r.Job, ID: r.ID, Tick: r.Tick, Outcome: string(r.Outcome), Reason: r.Reason}
	if !r.Tick.IsZero() && on != observe.Skipped {
		e.Wait = max(r.Started.Sub(r.Tick), 0)
	}
	if on == observe.Ended && r.Outcome.Ran() && !r.Inferred {
		e.Took = max(r.Ended.Sub(r.Started), 0)
	}
	return e
}

// crashed notifies of a run whose tick this process has taken over, to run it again.
func (n *notifier) crashed(t tick.Tick) {
	n.ended(run.Record{ID: t.RunID, Job: t.Job, Tick: t.At, Owner: t.Lease.Owner, Token: t.Lease.Token, Host: t.Claimant.Host,
		Started: t.Started, Ended: n.b.now(), Outcome: run.Crashed, Inferred: true,
		Reason: fmt.Sprintf("%s lost its lease and did not report; its tick is run again", t.Claimant)}, "", nil)
}

// news is what an outcome means to hooks, once the store has it.
type news uint8

const (
	noNews     news = iota // it was told, or whoever concluded it tells
	freshNews              // nobody knew of it
	betterNews             // it was taken for crashed, and told so, and had succeeded
)

// outcome notifies of an outcome if it is news.
func (n *notifier) outcome(what news, r run.Record, heldBy string, output []byte) {
	switch what {
	case freshNews:
		n.ended(r, heldBy, output)
	case betterNews:
		n.notify(Happening{On: job.OnSuccess, Job: r.Job, Tick: r.Tick, Outcome: r.Outcome, Reason: r.Reason, Run: r, Output: output, Amends: run.Crashed})
	}
}

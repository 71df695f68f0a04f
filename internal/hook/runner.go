package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
)

// Options are what a Runner needs of the process and the place that it is for.
type Options struct {
	// History tells whether a success is a recovery.
	History history.Store
	// Event records a hook that failed, of which Log has its line already.
	Event func(context.Context, history.Event)
	// Log takes a line for each hook that failed. Default slog.Default().
	Log *slog.Logger
	// Enter is what commands are given while they run: see command.Brief.
	Enter command.Entrance
}

// A Runner runs the hooks of the jobs of one place. It is safe for concurrent use.
type Runner struct {
	o   Options
	ctx context.Context // ends with Close
	end context.CancelCauseFunc

	mu      sync.Mutex
	jobs    map[string][]*line
	pending int           // messages that are not told yet
	idle    chan struct{} // closed when none is pending; nil until Close
}

// New makes a Runner without hooks; Set gives it some.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Runner{o: o, jobs: map[string][]*line{}}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	return r
}

// Set replaces the hooks of a job. secret signs its webhooks; nil: they are not signed. env is the
// environment of its commands. What earlier hooks have been told already they tell on.
func (r *Runner) Set(spec *job.Spec, secret []byte, env []string) {
	var lines []*line
	for i := range spec.Hooks {
		l := newLine(r, spec, i)
		l.secret, l.env = secret, env
		lines = append(lines, l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[spec.Key()] = lines
}

// SetKey is Set for what runs under a key that no manifest knows; its hooks are pings or requests without a signature.
// {job} in the address of a ping is the key.
func (r *Runner) SetKey(key string, hooks []job.Hook) {
	spec := &job.Spec{Name: key, Hooks: hooks}
	var lines []*line
	for i := range hooks {
		lines = append(lines, newLine(r, spec, i))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[key] = lines
}

// Wants is scheduler.Hooks's.
func (r *Runner) Wants(name string, on job.HookEvent) bool {
	for _, l := range r.lines(name) {
		if l.hook.Wants(on) {
			return true
		}
	}
	return false
}

func (r *Runner) lines(name string) []*line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[name]
}

// Tell is scheduler.Hooks's.
func (r *Runner) Tell(h scheduler.Happening) {
	for _, l := range r.lines(h.Job) {
		if l.hook.Wants(h.On) {
			l.add(ofJob(h))
		}
		switch {
		case h.On == job.OnStart && l.hook.Wants(job.OnTooLong):
			go l.watch(h)
		case h.On == job.OnSuccess && l.hook.Wants(job.OnRecovery):
			h.On = job.OnRecovery // if it is one, which the line finds out
			l.add(ofJob(h))
			h.On = job.OnSuccess
		}
	}
}

func ofJob(h scheduler.Happening) message { return message{factsOf(h), h} }

// watch tells of a run that takes too long, while it runs.
func (l *line) watch(h scheduler.Happening) {
	t := time.NewTimer(l.hook.TooLong)
	defer t.Stop()
	select {
	case <-h.Over:
	case <-l.r.ctx.Done():
	case <-t.C:
		h.On, h.Reason = job.OnTooLong, fmt.Sprintf("it has been running for %s", l.hook.TooLong)
		l.add(ofJob(h))
	}
}

// errEnds is why a hook is given up.
var errEnds = errors.New("dibs ended before it was delivered")

// Close waits for what is to be told yet until ctx ends, and then gives it up. Nothing is told after it.
func (r *Runner) Close(ctx context.Context) {
	r.mu.Lock()
	if r.idle == nil {
		r.idle = make(chan struct{})
		if r.pending == 0 {
			close(r.idle)
		}
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	r.end(errEnds)
	<-idle // at once: all of it heeds the context
}

// admit counts one message in, unless the Runner is closed.
func (r *Runner) admit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle != nil {
		return false
	}
	r.pending++
	return true
}

func (r *Runner) told() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending--; r.pending == 0 && r.idle != nil {
		close(r.idle)
	}
}

// failed says of a hook that it failed: an event and a line in the log, and nothing else.
func (r *Runner) failed(l *line, m message, err error) {
	about := []any{"job", m.Job, "run_id", m.RunID}
	if m.Job == "" {
		about = []any{"kind", m.Kind, "queue", m.Queue, "task", m.Task}
	}
	what := "a hook failed"
	if l.hook.Ping != nil {
		what = "a ping failed; the run is not affected"
	}
	r.o.Log.Warn(what, append([]any{"event", "hook-failed", "hook", l.name, "on", m.Event, "error", err}, about...)...)
	if r.o.Event == nil || r.ctx.Err() != nil { // the process ends: it waits for no store now
		return
	}
	r.o.Event(r.ctx, history.Event{Kind: "hook-failed", Job: m.Job, Tick: m.of.Tick, RunID: m.RunID,
		Reason: fmt.Sprintf("%s, on %s: %v", l.name, m.about(), err)})
}

// recovered says whether a success is the first one after a failure: whether of the runs that ended
// before it the last one to succeed or to fail had failed. One that had been taken for crashed comes
// after its own failure, unless another run has ended since.
func (r *Runner) recovered(ctx context.Context, h scheduler.Happening) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, job.DefaultHookTimeout)
	defer cancel()
	runs, err := r.o.History.Runs(ctx, history.Query{Job: h.Job, Limit: recent})
	if err != nil {
		return false, fmt.Errorf("it is unknown whether this is a recovery: %w", err)
	}
	var last time.Time
	failure := false
	for _, o := range runs {
		failed := scheduler.Failure(o.Outcome)
		switch {
		case o.ID == h.Run.ID || !failed && o.Outcome != run.Succeeded:
		case o.Ended.After(h.Run.Ended) && h.Amends != "":
			return false, nil
		case !o.Ended.After(h.Run.Ended) && !o.Ended.Before(last):
			last, failure = o.Ended, failed
		}
	}
	return failure || h.Amends != "", nil
}

// recent is how many runs are looked at for a recovery.
const recent = 50

// timeout bounds one attempt to tell.
func (l *line) timeout() time.Duration { return cmp.Or(l.hook.Timeout, job.DefaultHookTimeout) }

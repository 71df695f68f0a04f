package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/scheduler"
)

// A Job is one job of a manifest, for a process that fires it and ends: cron, systemd, Kubernetes or EventBridge
// starts such a process on every server. Get it with Find, and close it at the end. It is for one fire, or a
// back-fill.
type Job struct {
	*service
	spec  *job.Spec
	read  *reading
	asked context.Context // ended when the process is told to end; nil: nothing was fired
	ran   bool
}

// Find reads the manifest and finds a job in it by its name, APP/JOB or APP.JOB; it opens nothing else yet. It
// ignores Hurry, OnState and Drain of o. The error is a *Refusal.
func Find(ctx context.Context, at Store, m Manifest, name string, o Options) (*Job, error) {
	mark := "." // as triggers of other schedulers have it; dibs's own names have a slash
	if strings.Contains(name, "/") {
		mark = "/"
	}
	app, jobName, ok := strings.Cut(name, mark)
	if !ok {
		return nil, o.cured(refused("", fmt.Errorf("%q: name the job as APP/JOB or APP.JOB; a key of dibs run has its command in a crontab: add --now to that line to run it now", name)))
	}
	s, err := newService(at, m, o, true)
	if err != nil {
		return nil, err
	}
	j := &Job{service: s}
	if j.read, err = s.load(ctx); err != nil {
		s.inner.Close()
		return nil, err
	}
	s.app = j.read.app
	var known []string
	for _, spec := range j.read.specs {
		if known = append(known, spec.App+"."+spec.Name); spec.App == app && spec.Name == jobName {
			j.spec = spec
		}
	}
	if j.spec == nil {
		s.inner.Close()
		return nil, s.refuse(fmt.Errorf("%s declares no job %s; it has %s", s.from, name, strings.Join(known, ", ")))
	}
	return j, nil
}

// Spec returns the job as it is declared, with its scope decided.
func (j *Job) Spec() job.Spec { return *j.spec }

// Open opens the job's store, if it is not open yet, and returns what the scheduler runs there: for what Trigger
// does not do, such as a back-fill. The error is a *Refusal if something is wrong with the job; other errors are the
// store's.
func (j *Job) Open(ctx context.Context) (*scheduler.Backend, *scheduler.Job, error) {
	if err := j.move(ctx, j.spec.Policy.Scope); err != nil {
		return nil, nil, err
	}
	made, set, err := j.prepare(j.spec, j.read.env)
	if err != nil {
		return nil, nil, j.refuse(err)
	}
	set()
	if j.asked == nil {
		j.asked = ctx
	}
	return j.homes[j.spec.Policy.Scope].Backend.Backend, made, nil
}

// Tidy does, after a fire, what a server does besides its jobs: it copies the records of this host's own store to
// the shared one, and occasionally deletes old history. It takes a few seconds at most. Its failures are not
// reported: another process does the work later.
func (j *Job) Tidy(ctx context.Context) {
	if way, ok := j.mirror(); ok {
		way.After(ctx)
	}
	if !j.ran || j.asked.Err() != nil {
		return
	}
	for _, h := range j.homes {
		h.RetainAfter(ctx)
	}
}

// Close lets hooks report what is left, and releases everything. It takes 2 min at most, and ends with ctx: a caller
// that is asked to end need not wait for hooks, since the outcome is recorded. If Fire.Accept has ended, while the
// job ran or while its first hook was already being notified, hooks get 10 s.
func (j *Job) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, singleHookDrain)
	defer cancel()
	if j.asked != nil {
		defer context.AfterFunc(j.asked, func() { time.AfterFunc(mostHookDrain, cancel) })()
	}
	j.close(ctx)
}

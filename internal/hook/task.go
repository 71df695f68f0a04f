package hook

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
)

// onCrash is what pings know of a task's events beside those of jobs.
const onCrash = job.HookEvent(queue.TaskCrashed)

// tasks is the name under which a Runner keeps the hooks of tasks; no job has it.
const tasks = ""

// NewTasks makes a Runner with the hooks of a worker's tasks: see Set.
func NewTasks(o Options, hooks []job.Hook, secret []byte, env []string) *Runner {
	r := New(o)
	spec := &job.Spec{Hooks: hooks}
	for i := range hooks {
		l := newLine(r, spec, i)
		l.secret, l.env = secret, env
		r.jobs[tasks] = append(r.jobs[tasks], l)
	}
	return r
}

// TellTask is a worker's listener (queue.WorkerOptions.Listen).
func (r *Runner) TellTask(h queue.Happening) {
	for _, l := range r.lines(tasks) {
		if l.hook.Wants(job.HookEvent(h.On)) {
			l.add(message{Facts: factsOfTask(h)})
		}
	}
}

func factsOfTask(h queue.Happening) Facts {
	return Facts{Event: job.HookEvent(h.On), Task: int64(h.Task.ID), Kind: h.Kind, Queue: h.Queue, Tags: h.Tags, Attempt: h.Attempt,
		Token: int64(h.Task.Token), Outcome: run.Outcome(h.Outcome), Reason: h.Reason, Error: strings.ToValidUTF8(h.Error, "\uFFFD"),
		Again: h.Again.Seconds(), Started: h.Started.UTC(), Ended: h.Ended.UTC(), Count: h.Count}
}

// about names the event, and of a task which one.
func (f *Facts) about() string {
	switch {
	case f.Task != 0:
		return fmt.Sprintf("%s of task %d (%s, queue %s), attempt %d", f.Event, f.Task, f.Kind, f.Queue, f.Attempt)
	case f.Event == onCrash:
		return fmt.Sprintf("%s of %d tasks; dibs task list --state crashed lists them", f.Event, f.Count)
	}
	return string(f.Event)
}

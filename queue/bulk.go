package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// page is how many tasks one step of a bulk act takes.
const page = 1000

// A Bulk is an act on all tasks that a filter selects: as they are when it begins, in steps, each of which
// stands for itself. It may be interrupted after any of them, and begun again.
type Bulk struct {
	Admin  Admin
	Filter Filter // its cursor and bound are the Bulk's own
	Action Action // without IDs
}

// Preview is what a Bulk would be done to.
type Preview struct {
	// Tasks is how many there are, States how many in each state; First and Last bound their ids.
	Tasks       int
	States      map[State]int
	First, Last ID
}

// Preview looks, and changes nothing.
func (b Bulk) Preview(ctx context.Context) (Preview, error) {
	p := Preview{States: map[State]int{}}
	err := b.pages(ctx, 0, func(tasks []Task) error {
		if p.First == 0 {
			p.First = tasks[0].ID
		}
		p.Last, p.Tasks = tasks[len(tasks)-1].ID, p.Tasks+len(tasks)
		for i := range tasks {
			p.States[tasks[i].State]++
		}
		return nil
	})
	return p, err
}

// Progress is how far a Bulk has come: how many tasks were answered what, and those that were not
// simply done.
type Progress struct {
	Tasks   int
	Answers map[ActAnswer]int
	// Exceptions are answers other than Done and Asking, at most 1,000.
	Exceptions []Acted
}

// Do acts on the tasks up to last (Preview.Last), and calls each after every step. When ctx ends it stops
// between two steps.
func (b Bulk) Do(ctx context.Context, last ID, each func(Progress)) (Progress, error) {
	p := Progress{Answers: map[ActAnswer]int{}}
	if err := b.Action.Check(); err != nil {
		return p, err
	}
	err := b.pages(ctx, last, func(tasks []Task) error {
		a := b.Action
		for i := range tasks {
			a.IDs = append(a.IDs, tasks[i].ID)
		}
		acted, err := b.Admin.Act(context.WithoutCancel(ctx), a) // else nobody would know how far it came
		if err != nil {
			return err
		}
		p.add(acted)
		if each != nil {
			each(p)
		}
		return nil
	})
	return p, err
}

func (p *Progress) add(acted []Acted) {
	p.Tasks += len(acted)
	for _, a := range acted {
		p.Answers[a.Answer]++
		if a.Answer != Done && a.Answer != Asking && len(p.Exceptions) < page {
			p.Exceptions = append(p.Exceptions, a)
		}
	}
}

// pages hands the selected tasks to step, by id ascending.
func (b Bulk) pages(ctx context.Context, last ID, step func([]Task) error) error {
	f := b.Filter
	f.After, f.UpTo, f.Max = 0, last, page
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tasks, err := b.Admin.Tasks(ctx, f)
		if err != nil || len(tasks) == 0 {
			return err
		}
		f.After = tasks[len(tasks)-1].ID
		if err := step(tasks); err != nil {
			return err
		}
		if len(tasks) < page {
			return nil
		}
	}
}

// Drained waits until none of the tasks up to last that the filter selects waits or runs any more,
// and calls each with how many are left, about once a second (rule Q7).
func (b Bulk) Drained(ctx context.Context, last ID, each func(left int)) error {
	for {
		left := 0
		if err := b.pages(ctx, last, func(tasks []Task) error { left += len(tasks); return nil }); err != nil {
			return err
		}
		if each != nil {
			each(left)
		}
		if left == 0 {
			return nil
		}
		if !wait(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// Waits are the states of tasks that wait, without those whose instant has not come unless scheduled is set.
func Waits(scheduled bool) []State {
	if scheduled {
		return []State{Scheduled, Available, Blocked, Retryable}
	}
	return []State{Available, Blocked, Retryable}
}

// Why says, in sentences, why a task that waits is not worked: all reasons that there are. It is empty
// for a task that does not wait, or that simply has others before it.
func Why(ctx context.Context, a Admin, t Task, held Slots, now time.Time) ([]string, error) {
	if !t.State.Waiting() {
		return nil, nil
	}
	pauses, err := a.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := a.Workers(ctx)
	if err != nil {
		return nil, err
	}
	rates, err := a.Rates(ctx)
	if err != nil {
		return nil, err
	}
	var why []string
	if (t.State == Scheduled || t.State == Retryable) && t.RunAt.After(now) {
		why = append(why, fmt.Sprintf("its instant, %s, has not come", t.RunAt.UTC().Format(time.RFC3339)))
	}
	for _, p := range pauses {
		if p.Covers(t.Queue, t.Kind, now) {
			_, words := p.Event()
			why = append(why, "paused: "+words)
		}
	}
	if t.State == Blocked {
		why = append(why, blocked(held))
	}
	if p, found := rates[t.Kind]; found && t.State == Available && p.Next.After(now) {
		why = append(why, fmt.Sprintf("the rate of its kind, one in every %s, is used up until %s", p.Each, p.Next.UTC().Format(time.RFC3339)))
	}
	return append(why, unworked(t, workers)...), nil
}

// Covers says whether p holds back tasks of kind in queue at now.
func (p Pause) Covers(queue, kind string, now time.Time) bool {
	return (p.Queue == "" || p.Queue == queue) && (p.Kind == "" || p.Kind == kind) && (p.Until.IsZero() || p.Until.After(now))
}

func blocked(s Slots) string {
	words := fmt.Sprintf("its limit %q lets %d run at the same time", s.Key, s.Max)
	for i, h := range s.Running {
		if i == 5 {
			return words + fmt.Sprintf(", and %d more", len(s.Running)-i)
		}
		words += fmt.Sprintf("; task %d does, on %s pid %d, since %s", h.ID, h.Worker.Host, h.Worker.PID, h.Since.UTC().Format(time.RFC3339))
	}
	return words
}

// unworked says whether any worker could take it.
func unworked(t Task, workers []Process) []string {
	served, known := false, false
	for _, w := range workers {
		if slices.Contains(w.Queues, t.Queue) {
			served = true
			known = known || len(w.Kinds) == 0 || slices.Contains(w.Kinds, t.Kind)
		}
	}
	switch {
	case !served:
		return []string{"no worker works queue " + t.Queue}
	case !known:
		return []string{"no worker of queue " + t.Queue + " knows kind " + t.Kind}
	}
	return nil
}

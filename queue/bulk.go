package queue

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// page is how many tasks one step of a bulk operation takes.
const page = 1000

// A Bulk is an operation on all tasks that a filter selects when it begins. It runs in independent steps, so it can
// be interrupted after any of them and started again. A task that has moved to another queue or state by the time of
// its step is left alone (Changed).
type Bulk struct {
	Admin  driver.Admin
	Filter driver.Filter    // its order, cursors and bound are the Bulk's own
	Action driver.OpRequest // without IDs, From and States
}

// Preview describes the tasks that a Bulk would change.
type Preview struct {
	// Tasks is the number of tasks, States the number in each state; First and Last bound their ids.
	Tasks       int
	States      map[task.State]int
	First, Last task.ID
}

// Preview only reads; it changes nothing.
func (b Bulk) Preview(ctx context.Context) (Preview, error) {
	p := Preview{States: map[task.State]int{}}
	err := b.pages(ctx, 0, func(tasks []driver.Task) error {
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

// Progress is how far a Bulk has come: the number of tasks per answer, and the tasks whose answer was not simply
// Done.
type Progress struct {
	Tasks   int
	Answers map[driver.OpAnswer]int
	// Exceptions are answers other than Done and Asking, at most 1,000.
	Exceptions []driver.OpResult
}

// Do runs the operation on the tasks up to last (Preview.Last), and calls each after every step. When ctx ends, it
// stops between two steps.
func (b Bulk) Do(ctx context.Context, last task.ID, each func(Progress)) (Progress, error) {
	p := Progress{Answers: map[driver.OpAnswer]int{}}
	if err := b.Action.Check(); err != nil {
		return p, err
	}
	err := b.pages(ctx, last, func(tasks []driver.Task) error {
		a := b.Action
		a.From, a.States = b.Filter.Queue, b.Filter.States
		for i := range tasks {
			a.IDs = append(a.IDs, tasks[i].ID)
		}
		acted, err := b.Admin.Operate(context.WithoutCancel(ctx), a) // else nobody would know how far it came
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

func (p *Progress) add(acted []driver.OpResult) {
	p.Tasks += len(acted)
	for _, a := range acted {
		p.Answers[a.Answer]++
		if a.Answer != driver.Done && a.Answer != driver.Asking && len(p.Exceptions) < page {
			p.Exceptions = append(p.Exceptions, a)
		}
	}
}

// pages passes the selected tasks to step, in ascending order of id.
func (b Bulk) pages(ctx context.Context, last task.ID, step func([]driver.Task) error) error {
	f := b.Filter
	f.After, f.Before, f.Newest, f.Max = 0, 0, false, page
	if last != 0 {
		f.Before = last + 1
	}
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

// Drained waits until none of the selected tasks up to last is waiting or running, and calls each with the number
// that is left, about once a second (rule Q7).
func (b Bulk) Drained(ctx context.Context, last task.ID, each func(left int)) error {
	for {
		left := 0
		if err := b.pages(ctx, last, func(tasks []driver.Task) error { left += len(tasks); return nil }); err != nil {
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

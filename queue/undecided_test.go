package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// torn answers Undecided for what has a unique key.
type torn struct{ driver.Store }

func (torn) Enqueue(_ context.Context, specs []task.Spec) (all []task.Enqueued, err error) {
	for i, s := range specs {
		e := task.Enqueued{Answer: task.New, ID: task.ID(i + 1), State: task.Available}
		if s.Unique != nil {
			e = task.Enqueued{Answer: task.Undecided}
		}
		all = append(all, e)
	}
	return all, nil
}

func (torn) Count(context.Context, []driver.Count) error { return nil }

// An enqueue that took nothing in and names no task is an error, however it is made.
// Holds: Q2.
func TestUndecidedIsAnError(t *testing.T) {
	c := queue.NewClient(queue.ClientOptions{Store: torn{}})
	defer c.Close()
	plain := task.Spec{Kind: "k"}
	unique := task.Spec{Kind: "k", Unique: &task.Unique{Key: "order-7"}}
	one := func(e task.Enqueued, err error) ([]task.Enqueued, error) { return []task.Enqueued{e}, err }
	for name, enqueue := range map[string]func(...task.Spec) ([]task.Enqueued, error){
		"Enqueue": func(s ...task.Spec) (all []task.Enqueued, first error) {
			for i := range s {
				e, err := one(c.Enqueue(t.Context(), s[i]))
				if all = append(all, e...); err != nil && first == nil {
					first = err
				}
			}
			return all, first
		},
		"EnqueueMany": func(s ...task.Spec) ([]task.Enqueued, error) { return c.EnqueueMany(t.Context(), s) },
		"EnqueueIn":   func(s ...task.Spec) ([]task.Enqueued, error) { return queue.EnqueueIn(t.Context(), torn{}, s...) },
	} {
		if _, err := enqueue(plain, plain); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answers, err := enqueue(plain, unique, plain)
		if !errors.Is(err, queue.ErrUndecided) || !strings.Contains(fmt.Sprint(err), `"order-7"`) {
			t.Errorf("%s: %v; want undecided, with its key", name, err)
		}
		if len(answers) != 3 || answers[0].Answer != task.New || answers[1].Answer != task.Undecided || answers[2].Answer != task.New {
			t.Errorf("%s: %+v", name, answers)
		}
	}
	many := make([]task.Spec, 2500) // several steps: all of them are carried out
	for i := range many {
		many[i] = plain
	}
	many[7], many[2400] = unique, unique
	answers, err := c.EnqueueMany(t.Context(), many)
	if !errors.Is(err, queue.ErrUndecided) || !strings.Contains(err.Error(), "2 of 2500") || !strings.Contains(err.Error(), "task 7 of") || len(answers) != len(many) {
		t.Errorf("%v, %d answers", err, len(answers))
	}
}

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/queue"
)

// torn answers Undecided for what has a unique key.
type torn struct{ queue.Store }

func (torn) Enqueue(_ context.Context, specs []queue.Spec) (all []queue.Enqueued, err error) {
	for i, s := range specs {
		e := queue.Enqueued{Answer: queue.New, ID: queue.ID(i + 1), State: queue.Available}
		if s.Unique != nil {
			e = queue.Enqueued{Answer: queue.Undecided}
		}
		all = append(all, e)
	}
	return all, nil
}

func (torn) Count(context.Context, []queue.Count) error { return nil }

// What took nothing in and names no task is an error, however it is enqueued.
// Holds: Q2.
func TestUndecidedIsAnError(t *testing.T) {
	c := queue.NewClient(queue.ClientOptions{Store: torn{}})
	defer c.Close()
	plain := queue.Spec{Kind: "k"}
	unique := queue.Spec{Kind: "k", Unique: &queue.Unique{Key: "order-7"}}
	one := func(e queue.Enqueued, err error) ([]queue.Enqueued, error) { return []queue.Enqueued{e}, err }
	for name, enqueue := range map[string]func(...queue.Spec) ([]queue.Enqueued, error){
		"Enqueue": func(s ...queue.Spec) (all []queue.Enqueued, first error) {
			for i := range s {
				e, err := one(c.Enqueue(t.Context(), s[i]))
				if all = append(all, e...); err != nil && first == nil {
					first = err
				}
			}
			return all, first
		},
		"EnqueueMany": func(s ...queue.Spec) ([]queue.Enqueued, error) { return c.EnqueueMany(t.Context(), s) },
		"EnqueueIn":   func(s ...queue.Spec) ([]queue.Enqueued, error) { return queue.EnqueueIn(t.Context(), torn{}, s...) },
	} {
		if _, err := enqueue(plain, plain); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answers, err := enqueue(plain, unique, plain)
		if !errors.Is(err, queue.ErrUndecided) || !strings.Contains(fmt.Sprint(err), `"order-7"`) {
			t.Errorf("%s: %v; want undecided, with its key", name, err)
		}
		if len(answers) != 3 || answers[0].Answer != queue.New || answers[1].Answer != queue.Undecided || answers[2].Answer != queue.New {
			t.Errorf("%s: %+v", name, answers)
		}
	}
	many := make([]queue.Spec, 2500) // several steps: all of them are carried out
	for i := range many {
		many[i] = plain
	}
	many[7], many[2400] = unique, unique
	answers, err := c.EnqueueMany(t.Context(), many)
	if !errors.Is(err, queue.ErrUndecided) || !strings.Contains(err.Error(), "2 of 2500") || !strings.Contains(err.Error(), "task 7 of") || len(answers) != len(many) {
		t.Errorf("%v, %d answers", err, len(answers))
	}
}

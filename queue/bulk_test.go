package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/memory"
)

// interrupted ends a context in the middle of an act.
type interrupted struct {
	queue.Admin
	end context.CancelFunc
}

func (a interrupted) Act(ctx context.Context, act queue.Action) ([]queue.Acted, error) {
	a.end()
	return a.Admin.Act(ctx, act)
}

// Whoever interrupts a bulk act ends it between two steps, and hears how far it came.
func TestABulkActEndsBetweenTwoSteps(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	specs := make([]queue.Spec, 2500)
	for i := range specs {
		specs[i] = queue.Spec{Kind: "k"}
	}
	c := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer c.Close()
	if _, err := c.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	b := queue.Bulk{Admin: interrupted{st.Tasks, end}, Filter: queue.Filter{States: queue.Waits(true)}, Action: queue.Action{Act: queue.ActDiscard}}
	p, err := b.Do(ctx, 0, nil)
	if !errors.Is(err, context.Canceled) || p.Tasks != 1000 || p.Answers[queue.Done] != 1000 {
		t.Errorf("it ended with %v after %+v; one step is 1000", err, p)
	}
	again := queue.Bulk{Admin: st.Tasks, Filter: b.Filter, Action: b.Action}
	if left, err := again.Preview(t.Context()); err != nil || left.Tasks != 1500 {
		t.Errorf("%d tasks are left, %v", left.Tasks, err)
	}
	if p, err = again.Do(t.Context(), 0, nil); err != nil || p.Answers[queue.Done] != 1500 {
		t.Errorf("begun again: %+v, %v", p, err)
	}
	if _, err := (queue.Bulk{Admin: st.Tasks, Filter: b.Filter, Action: queue.Action{Act: queue.ActMove, Queue: "no such"}}).Do(t.Context(), 0, nil); err == nil {
		t.Error("a move to a queue that cannot be is not refused")
	}
}

package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// interrupted ends a context in the middle of an act.
type interrupted struct {
	driver.Admin
	end context.CancelFunc
}

func (a interrupted) Operate(ctx context.Context, act driver.OpRequest) ([]driver.OpResult, error) {
	a.end()
	return a.Admin.Operate(ctx, act)
}

// Whoever interrupts a bulk act ends it between two steps, and hears how far it came.
func TestABulkOperationEndsBetweenTwoSteps(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	specs := make([]task.Spec, 2500)
	for i := range specs {
		specs[i] = task.Spec{Kind: "k"}
	}
	c := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer c.Close()
	if _, err := c.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	b := queue.Bulk{Admin: interrupted{st.Tasks, end}, Filter: driver.Filter{States: task.Waits(true)}, Action: driver.OpRequest{Operation: driver.OpDiscard}}
	p, err := b.Do(ctx, 0, nil)
	if !errors.Is(err, context.Canceled) || p.Tasks != 1000 || p.Answers[driver.Done] != 1000 {
		t.Errorf("it ended with %v after %+v; one step is 1000", err, p)
	}
	again := queue.Bulk{Admin: st.Tasks, Filter: b.Filter, Action: b.Action}
	if left, err := again.Preview(t.Context()); err != nil || left.Tasks != 1500 {
		t.Errorf("%d tasks are left, %v", left.Tasks, err)
	}
	if p, err = again.Do(t.Context(), 0, nil); err != nil || p.Answers[driver.Done] != 1500 {
		t.Errorf("begun again: %+v, %v", p, err)
	}
	if _, err := (queue.Bulk{Admin: st.Tasks, Filter: b.Filter, Action: driver.OpRequest{Operation: driver.OpMove, Queue: "no such"}}).Do(t.Context(), 0, nil); err == nil {
		t.Error("a move to a queue that cannot be is not refused")
	}
}

// overtaken is an admin who promotes one of the tasks that another one has just listed.
type overtaken struct {
	driver.Admin
	task task.ID
}

func (a overtaken) Tasks(ctx context.Context, f driver.Filter) ([]driver.Task, error) {
	tasks, err := a.Admin.Tasks(ctx, f)
	if err == nil {
		_, err = a.Admin.Operate(ctx, driver.OpRequest{Operation: driver.OpPromote, IDs: []task.ID{a.task}})
	}
	return tasks, err
}

// A bulk act leaves a task alone that is no longer in a state that was selected.
func TestABulkActLeavesAloneWhatHasMovedOn(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	c := queue.NewClient(queue.ClientOptions{Store: st.Queue})
	defer c.Close()
	var ids []task.ID
	for range 3 {
		e, err := c.Enqueue(t.Context(), task.Spec{Kind: "k", Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	b := queue.Bulk{Admin: overtaken{st.Tasks, ids[1]}, Filter: driver.Filter{States: []task.State{task.Scheduled}}, Action: driver.OpRequest{Operation: driver.OpCancel}}
	p, err := b.Do(t.Context(), 0, nil)
	if err != nil || p.Tasks != 3 || p.Answers[driver.Done] != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if got, _, ok, err := st.Tasks.Task(t.Context(), ids[1]); !ok || got.State != task.Available {
		t.Errorf("the promoted task: %v, %v, %v", got.State, ok, err)
	}
}

// steps notes how much is taken in at a time.
type steps struct {
	driver.Store
	tasks, bytes []int
}

func (s *steps) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	n := 0
	for i := range specs {
		n += len(specs[i].Args)
	}
	s.tasks, s.bytes = append(s.tasks, len(specs)), append(s.bytes, n)
	return s.Store.Enqueue(ctx, specs)
}

// A step is bounded by what its tasks weigh as well: 1,000 may be a quarter of a gigabyte.
func TestManyLargeTasksGoInSeveralSteps(t *testing.T) {
	s := &steps{Store: memory.New(memory.Options{}).Store().Queue}
	c := queue.NewClient(queue.ClientOptions{Store: s})
	defer c.Close()
	large := json.RawMessage(`"` + strings.Repeat("x", task.MaxArgs-2) + `"`)
	var specs []task.Spec
	for range 70 {
		specs = append(specs, task.Spec{Kind: "k", Args: large})
	}
	for range 1500 {
		specs = append(specs, task.Spec{Kind: "k"})
	}
	answers, err := c.EnqueueMany(t.Context(), specs)
	if err != nil || len(answers) != len(specs) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, a := range answers {
		if a.Answer != task.New || a.ID != task.ID(i+1) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	if !slices.Equal(s.tasks, []int{32, 32, 1000, 506}) || slices.Max(s.bytes) > 8<<20 {
		t.Errorf("steps of %v tasks, %v bytes", s.tasks, s.bytes)
	}
}

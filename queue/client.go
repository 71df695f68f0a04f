package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
)

// maxBatch is how many tasks one call of a Client sends at most; maxBytes bounds the total size of their arguments.
const (
	maxBatch = 1000
	maxBytes = 8 << 20
)

// ClientOptions configure a Client. Only Store is required.
type ClientOptions struct {
	Store driver.Store
	// Timeout bounds one call of the store. Default 10 s.
	Timeout time.Duration
}

// A Client enqueues tasks. Concurrent calls are sent together. It is safe for concurrent use.
type Client struct {
	store   driver.Store
	timeout time.Duration
	singles *coalesce.Batcher[Spec, Enqueued]
	closed  atomic.Bool
	tally   *counters.Tally
}

// NewClient creates a Client. Close it, so that its counters are written.
func NewClient(o ClientOptions) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	c := &Client{store: o.Store, timeout: o.Timeout, tally: counters.New(o.Store)}
	c.singles = coalesce.New(maxBatch/2, 2, nil, c.send)
	return c
}

// Enqueue adds one task. Enqueued.Answer reports whether it is New or a Duplicate, of which task, and in which state
// that one is (promise 16). If the error wraps ErrUnavailable, the result is unknown: a Spec with a unique key can
// simply be sent again. It can also be sent again after ErrUndecided, which added nothing. If ctx ends first, the
// task may still be added.
func (c *Client) Enqueue(ctx context.Context, s Spec) (Enqueued, error) {
	if err := s.Check(); err != nil {
		return Enqueued{}, err
	}
	e, err := c.singles.Do(ctx, s)
	if errors.Is(err, coalesce.ErrClosed) {
		return e, ErrClosed
	}
	if err != nil {
		return e, err
	}
	c.tally.Admitted([]Spec{s}, []Enqueued{e})
	return e, undecided([]Spec{s}, []Enqueued{e})
}

// send carries out concurrent calls, in steps that are as large as those of EnqueueMany at most.
func (c *Client) send(specs []Spec) (answers []Enqueued, err error) {
	for len(specs) > 0 {
		part := specs[:stepOf(specs)]
		got, err := c.step(context.Background(), part)
		if err != nil {
			return nil, err
		}
		answers, specs = append(answers, got...), specs[len(part):]
	}
	return answers, nil
}

// EnqueueMany adds many tasks, each with its own answer. Up to 1,000 tasks with at most 8 MiB of arguments are one
// atomic step. On an error, EnqueueMany also returns the answers of the steps before it. With ErrUndecided it
// returns all answers: tasks answered Undecided were not added, and the others were.
func (c *Client) EnqueueMany(ctx context.Context, specs []Spec) ([]Enqueued, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	checked, err := checkAll(specs)
	if err != nil {
		return nil, err
	}
	answers := make([]Enqueued, 0, len(specs))
	for len(checked) > 0 {
		part := checked[:stepOf(checked)]
		got, err := c.step(ctx, part)
		if err != nil {
			return answers, err
		}
		c.tally.Admitted(part, got)
		answers, checked = append(answers, got...), checked[len(part):]
	}
	return answers, undecided(specs, answers)
}

// undecided returns the error for answers that added nothing and name no task; nil if there are none.
func undecided(specs []Spec, answers []Enqueued) error {
	first, n := -1, 0
	for i := range answers {
		if answers[i].Answer != Undecided {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	switch {
	case n == 0:
		return nil
	case len(answers) == 1:
		return fmt.Errorf("task of kind %s, unique key %q: %w", specs[0].Kind, uniqueKey(&specs[0]), ErrUndecided)
	}
	return fmt.Errorf("%d of %d tasks, the first is task %d of the batch, kind %s, unique key %q: %w",
		n, len(answers), first, specs[first].Kind, uniqueKey(&specs[first]), ErrUndecided)
}

func uniqueKey(s *Spec) string {
	if s.Unique == nil {
		return ""
	}
	return s.Unique.Key
}

// stepOf returns how many of specs one step takes. A step that took longer than Timeout would be cut off with an
// unknown result.
func stepOf(specs []Spec) int {
	n, bytes := 1, len(specs[0].Args)
	for n < min(len(specs), maxBatch) {
		if bytes += len(specs[n].Args); bytes > maxBytes {
			break
		}
		n++
	}
	return n
}

func (c *Client) step(ctx context.Context, specs []Spec) ([]Enqueued, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.store.Enqueue(ctx, specs)
}

// Close writes the counters. Calls in progress are answered; later ones fail with ErrClosed.
func (c *Client) Close() {
	c.closed.Store(true)
	c.singles.Close()
	c.tally.Close()
}

// EnqueueIn adds tasks as part of the caller's transaction: the tasks do not exist before the commit, or after a
// rollback (promise 22). A store's package makes in from a transaction: postgres.QueueTx, mysql.QueueTx,
// file.QueueTx. Roll back on an error, as after any other failed statement. ErrUndecided leaves the transaction
// usable: the answers come with it, and tasks answered Undecided were not added.
func EnqueueIn(ctx context.Context, in driver.Inserter, specs ...Spec) ([]Enqueued, error) {
	checked, err := checkAll(specs)
	if err != nil {
		return nil, err
	}
	answers, err := in.Enqueue(ctx, checked)
	if err != nil {
		return nil, err
	}
	return answers, undecided(checked, answers)
}

// checkAll checks specs and returns them with their defaults.
func checkAll(specs []Spec) ([]Spec, error) {
	checked := slices.Clone(specs)
	for i := range checked {
		if err := checked[i].Check(); err != nil {
			return nil, &BatchError{i, err}
		}
	}
	return checked, nil
}

package nested

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/task"
)

// Client enqueues through the process that runs this command. Its zero value reaches no process.
type Client struct{ Via string }

// patience is how long a step may take in all, including the wait for its turn.
const patience = 30 * time.Second

// EnqueueMany enqueues many tasks, in steps as queue.Client does: each step is atomic, and on an error the answers
// of the steps before it are returned with it. If no answer came, the error wraps ErrUnreachable; the step may have
// been carried out then.
func (c Client) EnqueueMany(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	answers := make([]task.Enqueued, 0, len(specs))
	for len(specs) > 0 {
		n, size := 1, len(specs[0].Args)
		for n < min(len(specs), mostSpecs) && size+len(specs[n].Args) <= mostArgs {
			size += len(specs[n].Args)
			n++
		}
		got, err := c.step(ctx, specs[:n])
		if err != nil {
			return answers, err
		}
		answers, specs = append(answers, got...), specs[n:]
	}
	return answers, nil
}

// The bounds of one step: tasks, and bytes of their arguments. They are the same as queue.Client's.
const (
	mostSpecs = 1000
	mostArgs  = 8 << 20
)

func (c Client) step(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	name, token, ok := strings.Cut(c.Via, "/")
	if !ok || !strings.HasPrefix(name, "@") {
		return nil, fmt.Errorf("%w: name a store with --store, DIBS_STORE or DIBS_STORE_FILE", ErrUnreachable)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := ask(ctx, name, request{token, specs})
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		case a.Error == "" && len(a.Enqueued) != len(specs):
			return nil, fmt.Errorf("%w: it answered for %d tasks of %d", ErrUnreachable, len(a.Enqueued), len(specs))
		case !errors.Is(a.err(), errBusy):
			return a.Enqueued, a.err()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, a.err())
		}
	}
}

func ask(ctx context.Context, name string, r request) (a answer, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = errors.New("its socket is gone: that dibs has ended, or this command is in another network namespace")
		}
		return a, err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	sent := send(conn, r)
	if err := receive(conn, &a); err != nil { // what refused the request may not have read it
		return a, errors.Join(sent, fmt.Errorf("it did not answer: %w", err))
	}
	return a, nil
}

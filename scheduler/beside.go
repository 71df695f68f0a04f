package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// beside is what a fire does for others while its work goes on. Neither the work nor the release waits for it
// (promise 27): after the release it gets a little more time, and the next one does what is left.
type beside struct {
	*execution
	lease    *lease.Lease
	released atomic.Bool // the release is on its way
	cancel   context.CancelFunc
	done     chan struct{}
}

// beside starts it. It ends with ctx, and when the fire is told to begin nothing more.
func (x *execution) beside(ctx context.Context, l *lease.Lease) *beside {
	d := &beside{execution: x, lease: l, done: make(chan struct{})}
	ctx, d.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(x.Accept, d.cancel)
	go func() {
		defer close(d.done)
		defer stop()
		// First what is known, then what can only be inferred. A server's sweep delivers anyway.
		if !x.outbox.sweeping.Load() {
			switch err := x.outbox.deliver(ctx, false); {
			case errors.Is(err, ErrEnough):
				return
			case err != nil:
				x.b.log().Warn("records on this host are delivered to the store later", "error", err)
			}
		}
		d.closeDead(ctx)
	}()
	return d
}

// end gives what is in progress one rpc timeout, and returns when it has ended.
func (d *beside) end() {
	defer d.cancel()
	enough := time.NewTimer(d.b.Keeper.Margin().RPCTimeout)
	defer enough.Stop()
	select {
	case <-d.done:
	case <-enough.C:
		d.cancel()
		<-d.done
	}
}

// holding reports whether the key is still held here: what was read before belongs to earlier holders.
func (d *beside) holding() bool { return !isClosed(d.lease.Lost()) && !d.released.Load() }

// closeDead ends the records of runs without a tick whose process died: while this process holds the key, no run
// that it reads can still be working. (The sweep ends those with a tick; the directory, whose locks tell at once,
// does this by itself.)
func (d *beside) closeDead(ctx context.Context) {
	if d.Policy.Concurrency == job.Allow || d.b.Descriptor != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	recent, err := d.requests.open().recent.Do(ctx, string(d.Key))
	if err != nil {
		return // the next run of this key does it
	}
	var allowed map[lease.Nonce]lease.Holder // runs under Allow have leases of their own
	for _, r := range recent {
		if r.Outcome != "" || r.ID == d.RunID || !r.Tick.IsZero() {
			continue
		}
		if allowed == nil {
			if allowed, err = d.b.Keeper.Unshared(ctx); err != nil || !d.holding() {
				return
			}
		}
		if _, live := allowed[r.Owner]; live {
			continue
		}
		r.Outcome, r.Inferred, r.Ended = run.Crashed, true, d.b.now().Truncate(time.Microsecond)
		r.Reason = fmt.Sprintf("%s pid %d lost its lease and did not report", r.Host, r.PID)
		if a, err := d.b.Book.Close(ctx, tick.CloseRequest{Run: r}); err == nil && a.Status == tick.Won {
			d.notifier.ended(r, "", nil) // the key was ours: nobody else concluded it
		}
	}
}

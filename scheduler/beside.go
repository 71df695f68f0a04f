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

// beside is what a fire does for others while its work goes on. Neither the work nor the release waits for any of it
// (promise 27): after the release it gets a little more time, and what is left is for the next one.
type beside struct {
	place    *Place
	lease    *lease.Lease
	released atomic.Bool // the release is on its way
	cancel   context.CancelFunc
	done     chan struct{}
}

// beside begins. It ends with ctx, and when the fire is told to begin nothing more.
func (p *Place) beside(ctx context.Context, f Fire, l *lease.Lease) *beside {
	b := &beside{place: p, lease: l, done: make(chan struct{})}
	ctx, b.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(f.Accept, b.cancel)
	go func() {
		defer close(b.done)
		defer stop()
		// First what is known, then what can only be inferred. A server's sweep delivers anyway.
		if !p.sweeping.Load() {
			switch err := p.Deliver(ctx); {
			case errors.Is(err, ErrEnough):
				return
			case err != nil:
				p.log().Warn("records on this host are delivered to the store later", "error", err)
			}
		}
		b.closeDead(ctx, f)
	}()
	return b
}

// end gives what is under way one rpc timeout, and returns when it has ended.
func (b *beside) end() {
	defer b.cancel()
	enough := time.NewTimer(b.place.Keeper.Margin().RPCTimeout)
	defer enough.Stop()
	select {
	case <-b.done:
	case <-enough.C:
		b.cancel()
		<-b.done
	}
}

// holding says that the key is still held here: what was read before belongs to those who had it earlier.
func (b *beside) holding() bool { return !isClosed(b.lease.Lost()) && !b.released.Load() }

// closeDead ends the records of runs without a tick whose process died: what is read while this one holds the key
// can be nobody's who is at work. (Those with a tick are the sweep's; the directory, whose locks tell at once, does
// this by itself.)
func (b *beside) closeDead(ctx context.Context, f Fire) {
	p := b.place
	if f.Policy.Concurrency == job.Allow || p.Descriptor != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.Keeper.Margin().RPCTimeout)
	defer cancel()
	recent, err := p.batches().recent.Do(ctx, string(f.Key))
	if err != nil {
		return // the next run of this key does it
	}
	var allowed map[lease.Nonce]lease.Holder // runs under Allow have leases of their own
	for _, r := range recent {
		if r.Outcome != "" || r.ID == f.RunID || !r.Tick.IsZero() {
			continue
		}
		if allowed == nil {
			if allowed, err = p.Keeper.Unshared(ctx); err != nil || !b.holding() {
				return
			}
		}
		if _, live := allowed[r.Owner]; live {
			continue
		}
		r.Outcome, r.Inferred, r.Ended = run.Crashed, true, p.now().Truncate(time.Microsecond)
		r.Reason = fmt.Sprintf("%s pid %d is gone without a report", r.Host, r.PID)
		if a, err := p.Book.Close(ctx, tick.CloseRequest{Run: r}); err == nil && a.Status == tick.Won {
			p.tellEnd(r, "", nil) // the key was ours: nobody else concluded it
		}
	}
}

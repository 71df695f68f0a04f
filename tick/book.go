package tick

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// Ahead is how far a tick may lie ahead of the store's clock when it is claimed: what two reads
// of one clock can differ by. A server whose own clock is fast is refused beyond it.
const Ahead = 2 * time.Second

// A Book makes the claims of one process in one store, under one lease of that process: when the
// process dies, all that it claimed and did not start lapses together. It is safe for concurrent
// use; claims that come at the same time travel in one request.
type Book struct {
	store  Store
	keeper *lease.Keeper
	self   lease.Holder
	claims *coalesce.Batcher[ClaimRequest, Answer]
	// OnHeldBack hears that the store grants nothing for a while (rule L9), as lease.Want's does. Set it before use.
	OnHeldBack func(wait time.Duration)

	// turn is held by whoever uses server: a lock that can be waited for with a context, since an
	// acquire may take long.
	turn   chan struct{}
	server *lease.Lease
}

// NewBook makes a Book. self describes the process to others.
func NewBook(s Store, k *lease.Keeper, self lease.Holder) *Book {
	b := &Book{store: s, keeper: k, self: self, turn: make(chan struct{}, 1)}
	b.claims = coalesce.New(500, 1, claimKey, b.send)
	return b
}

func claimKey(r ClaimRequest) string { return r.Job + "\x00" + r.At.UTC().Format(time.RFC3339Nano) }

// ErrTooLate is returned for a tick whose time to start has passed.
var ErrTooLate = errors.New("too late to start")

// Want says which tick is asked for.
type Want struct {
	Job        string
	At         time.Time
	Generation int64 // as in ClaimRequest
	// StartBy is the store instant until which the tick may be claimed to be run (rule T4), and
	// a claim that lapsed unstarted be taken over (rule T2). Zero: any time, and never.
	StartBy time.Time
	// Rerun also takes over a tick whose run crashed (rule T3).
	Rerun bool
	// Outcome, where set, closes the tick at once.
	Outcome run.Outcome
	Reason  string
	// Fill is ClaimRequest's.
	Fill bool
}

// Claim claims a tick. Won: run it, under Answer.Tick.Lease. A loser that finds the claim not yet
// started looks again for at most one TTL before it is told Taken, since the winner may have died
// (rule T2). An error wraps lease.ErrUnavailable, and nothing is known.
func (b *Book) Claim(ctx context.Context, w Want) (Answer, error) {
	var (
		patience time.Time
		last     Answer
	)
	for tries := 0; ; {
		a, under, err := b.ask(ctx, w)
		if errors.Is(err, ErrTooLate) && !patience.IsZero() {
			return last, nil // others have it, and have had their time
		}
		if err != nil {
			return a, err
		}
		switch {
		case a.Status == Lapsed || a.Status == Late:
			if tries++; tries > 2 {
				return a, fmt.Errorf("claim %s at %s: %w: the store answered %q", w.Job, w.At.Format(time.RFC3339), lease.ErrUnavailable, a.Status)
			}
			b.renew(ctx, a.Status, under)
			continue
		case a.Status != Taken || w.Outcome != "":
			return a, nil
		case a.Tick.State == Claimed && !a.Tick.Live && a.Now.Before(w.StartBy):
			if a, err = b.Take(ctx, a.Tick, false); err != nil || a.Status == Won {
				return a, err
			}
		case a.Tick.State != Claimed:
			return a, nil
		}
		last = a
		if patience.IsZero() {
			patience = a.Now.Add(b.keeper.Margin().TTL)
		}
		if a.Now.After(patience) {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-time.After(min(b.keeper.Margin().Heartbeat, 500*time.Millisecond)):
		}
	}
}

// ask sends one claim under the live lease of this process.
func (b *Book) ask(ctx context.Context, w Want) (Answer, lease.Ref, error) {
	l, err := b.Server(ctx)
	if err != nil {
		return Answer{}, lease.Ref{}, err
	}
	// The lease may have taken long to get: a tick whose time has passed is left to be settled.
	if now, err := b.keeper.Now(ctx); err != nil {
		return Answer{}, l.Ref(), err
	} else if !w.StartBy.IsZero() && now.After(w.StartBy) {
		return Answer{}, l.Ref(), fmt.Errorf("%s at %s: %w", w.Job, w.At.Format(time.RFC3339), ErrTooLate)
	}
	a, err := b.claims.Do(context.WithoutCancel(ctx), ClaimRequest{
		Job: w.Job, At: w.At, Generation: w.Generation, Lease: l.Ref(), Claimant: b.claimant(l),
		Ahead: Ahead, Outcome: w.Outcome, Reason: w.Reason, Fill: w.Fill,
	})
	return a, l.Ref(), err
}

func (b *Book) send(reqs []ClaimRequest) ([]Answer, error) {
	return persist(context.Background(), b, "claim", func(ctx context.Context, notAfter time.Time) ([]Answer, error) {
		for i := range reqs {
			reqs[i].NotAfter = notAfter
		}
		return b.store.Claim(ctx, reqs)
	})
}

// persist sends a request, and once more if it went unanswered: a store that stalls for one rpc
// timeout then costs no tick. That is safe for what a Book asks. A request that was carried out
// is, under the same lease, answered as before; and past its not_after, which is when it is given
// up, the first one can do nothing any more (rule L1).
func persist[A any](ctx context.Context, b *Book, what string, f func(context.Context, time.Time) (A, error)) (a A, err error) {
	for range 2 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.keeper.Margin().RPCTimeout)
		a, err = f(ctx, b.keeper.NotAfter())
		cancel()
		if err == nil {
			return a, nil
		}
	}
	return a, unavailable(what, err)
}

// Take takes over a tick whose lease lapsed; rerun as in TakeRequest.
func (b *Book) Take(ctx context.Context, t Tick, rerun bool) (Answer, error) {
	return b.take(ctx, t, TakeRequest{Rerun: rerun})
}

// Fill takes a tick that ended without having run, to run it after all; Taken if it is no such
// tick any more.
func (b *Book) Fill(ctx context.Context, t Tick) (Answer, error) {
	return b.take(ctx, t, TakeRequest{Fill: true})
}

func (b *Book) take(ctx context.Context, t Tick, r TakeRequest) (Answer, error) {
	l, err := b.Server(ctx)
	if err != nil {
		return Answer{}, err
	}
	return persist(ctx, b, "take over", func(ctx context.Context, notAfter time.Time) (Answer, error) {
		r.Job, r.At, r.From = t.Job, t.At, t.Lease
		r.Lease, r.Claimant, r.NotAfter = l.Ref(), b.claimant(l), notAfter
		return b.store.Take(ctx, r)
	})
}

// Start records that r begins, under l, before anything is executed (rule T1). claim is StartRequest's. A start that is
// not answered may have been carried out, and somebody would conclude that its run crashed. So it is asked for again, as
// long as the lease is good, for a TTL at most; but none that comes after startBy (zero: no bound) is carried out then.
func (b *Book) Start(ctx context.Context, claim lease.Ref, r run.Record, l *lease.Lease, startBy time.Time) (a Answer, err error) {
	enough := time.NewTimer(b.keeper.Margin().TTL)
	defer enough.Stop()
	start := func(ctx context.Context, notAfter time.Time) (Answer, error) {
		return b.store.Start(ctx, StartRequest{Run: r, Claim: claim, Lease: l.Ref(), NotAfter: notAfter})
	}
	again := func(ctx context.Context, notAfter time.Time) (Answer, error) {
		if !startBy.IsZero() && startBy.Before(notAfter) {
			notAfter = startBy
		}
		return start(ctx, notAfter)
	}
	a, err = persist(ctx, b, "record the start", start)
	for pause := 50 * time.Millisecond; err != nil; pause = min(2*pause, b.keeper.Margin().Heartbeat) {
		select {
		case <-time.After(pause):
			a, err = persist(ctx, b, "record the start", again)
		case <-l.Lost():
			return a, err
		case <-ctx.Done():
			return a, err
		case <-enough.C:
			return a, err
		}
	}
	return a, nil
}

// Close records an outcome and frees the lease in the same step (rule T9).
func (b *Book) Close(ctx context.Context, r CloseRequest) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.keeper.Margin().RPCTimeout)
	defer cancel()
	as, err := b.store.Close(ctx, []CloseRequest{r})
	if err != nil {
		return Answer{}, unavailable("record the outcome", err)
	}
	return as[0], nil
}

// Server is the lease under which this process's claims live, acquired when first needed and
// again after a loss.
func (b *Book) Server(ctx context.Context) (*lease.Lease, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.server != nil {
		select {
		case <-b.server.Lost():
			b.server.Drop()
		default:
			return b.server, nil
		}
	}
	l, err := b.keeper.Acquire(ctx, lease.Want{Key: lease.OnceKey(), Holder: b.self, OnHeldBack: b.OnHeldBack})
	if err != nil {
		return nil, fmt.Errorf("lease of this process: %w", err)
	}
	b.server = l
	return l, nil
}

// renew prepares another try after the store refused for a lapsed lease or a late request.
func (b *Book) renew(ctx context.Context, why Status, refused lease.Ref) {
	if why == Late {
		_ = b.keeper.Sync(ctx)
		return
	}
	b.turn <- struct{}{}
	if b.server != nil && b.server.Ref() == refused { // else another claim has renewed it already
		b.server.Drop()
		b.server = nil
	}
	<-b.turn
}

// Release gives up the lease of this process, and with it what it claimed and did not start.
func (b *Book) Release(ctx context.Context) error {
	b.turn <- struct{}{}
	l := b.server
	b.server = nil
	<-b.turn
	if l == nil {
		return nil
	}
	return l.Release(ctx)
}

func (b *Book) claimant(l *lease.Lease) lease.Holder {
	h := b.self
	h.ID = l.Ref().Owner
	return h
}

func unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, lease.ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, lease.ErrUnavailable, err)
}

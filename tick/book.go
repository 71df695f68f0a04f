package tick

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// Ahead is how far a tick may be ahead of the store's clock when it is claimed: two reads of one clock can differ by
// that much. A server whose own clock is further ahead is refused.
const Ahead = 2 * time.Second

// A Book makes the claims of one process in one store, under one lease of that process. If the process dies,
// everything that it claimed and did not start lapses together. A Book is safe for concurrent use. Claims, starts
// and outcomes that come at the same time are sent in one request each.
//
// A request that is not answered is sent once more, so that a store that stalls for one rpc timeout costs no tick.
// This is safe: under the same lease, a request that was carried out is answered as before; and after its not_after,
// which is when the caller gives up, the first request can have no effect any more (rule L1).
type Book struct {
	store  Store
	keeper *lease.Keeper
	self   lease.Holder
	claims *line[ClaimRequest]
	starts *line[*beginning]
	closes *line[CloseRequest]
	// OnHeldBack is called when the store grants nothing for a while (rule L9), like lease.Want's. Set it before
	// use.
	OnHeldBack func(wait time.Duration)

	// turn guards server. It is a channel and not a mutex, because waiting for it must end with a context: an
	// acquire may take long.
	turn   chan struct{}
	server *lease.Lease
}

// NewBook creates a Book. self describes the process to others.
func NewBook(s Store, k *lease.Keeper, self lease.Holder) *Book {
	b := &Book{store: s, keeper: k, self: self, turn: make(chan struct{}, 1)}
	b.claims = (&line[ClaimRequest]{keeper: k, what: "claim", send: b.sendClaims, persist: true}).open(claimKey)
	b.starts = (&line[*beginning]{keeper: k, what: "record the start", send: b.sendStarts}).open(startKey)
	b.closes = (&line[CloseRequest]{keeper: k, what: "record the outcome", send: b.sendCloses}).open(closeKey)
	return b
}

// A batch has a tick at most once: its result decides whether other requests for the same tick succeed.
func tickKey(job string, at time.Time) string {
	return job + "\x00" + strconv.FormatInt(at.UnixMicro(), 36)
}

func claimKey(r ClaimRequest) string { return tickKey(r.Job, r.At) }
func startKey(r *beginning) string   { return runKey(r.Run) }
func closeKey(r CloseRequest) string { return runKey(r.Run) }

// runKey returns the key of the run's tick, or its own if it has none.
func runKey(r run.Record) string {
	if r.Tick.IsZero() {
		return r.Job + "\x00" + r.ID
	}
	return tickKey(r.Job, r.Tick)
}

// ErrTooLate is returned for a tick whose time to start has passed.
var ErrTooLate = errors.New("too late to start")

// Want says which tick to claim.
type Want struct {
	Job        string
	At         time.Time
	Generation int64 // as in ClaimRequest
	// StartBy is the store instant until which the tick may be claimed to be run (rule T4), and until which a claim
	// that lapsed unstarted may be taken over (rule T2). Zero: claim at any time, and never take over. The time in
	// which the store holds grants back is added to it (lease.Keeper.Extend).
	StartBy time.Time
	// Rerun also takes over a tick whose run crashed (rule T3).
	Rerun bool
	// Outcome, if set, closes the tick at once.
	Outcome run.Outcome
	Reason  string
	// Fill is the same as ClaimRequest.Fill.
	Fill bool
}

// Claim claims a tick. If Answer.Status is Won, run it, under Answer.Tick.Lease. If another process won and has not
// started yet, Claim looks again for at most one TTL before it answers Taken, since the winner may have died (rule
// T2). If the error wraps lease.ErrUnavailable, the result is unknown.
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
		case a.Tick.State == Claimed && !a.Tick.Live && a.Now.Before(b.startBy(w)):
			if paused, err := b.paused(ctx, w.Job, a.Now); err != nil || paused {
				a.Status = Paused
				return a, err
			}
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

// paused reports whether a job is paused. The store checks that for a claim but not for a takeover, and nothing may
// begin in a pause (rule T8).
func (b *Book) paused(ctx context.Context, job string, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.keeper.Margin().RPCTimeout)
	defer cancel()
	known, err := b.store.Jobs(ctx, JobQuery{Names: []string{job}})
	for _, k := range known {
		if k.Name == job && k.Removed.IsZero() && k.Pause.Covers(now) {
			return true, nil
		}
	}
	return false, unavailable("read the pause of "+job, err)
}

// ask sends one claim under the live lease of this process.
func (b *Book) ask(ctx context.Context, w Want) (Answer, lease.Ref, error) {
	l, err := b.Server(ctx)
	if err != nil {
		return Answer{}, lease.Ref{}, err
	}
	// Getting the lease may have taken long: a tick whose time has passed is left to be settled.
	if now, err := b.keeper.Now(ctx); err != nil {
		return Answer{}, l.Ref(), err
	} else if by := b.startBy(w); !by.IsZero() && now.After(by) {
		return Answer{}, l.Ref(), fmt.Errorf("%s at %s: %w", w.Job, w.At.Format(time.RFC3339), ErrTooLate)
	}
	a, err := b.claims.submit(ctx, ClaimRequest{
		Job: w.Job, At: w.At, Generation: w.Generation, Lease: l.Ref(), Claimant: b.claimant(l),
		Ahead: Ahead, Outcome: w.Outcome, Reason: w.Reason, Fill: w.Fill,
	})
	return a, l.Ref(), err
}

// startBy returns until when a tick may start, given the hold-backs known now.
func (b *Book) startBy(w Want) time.Time { return b.keeper.Extend(w.At, w.StartBy) }

func (b *Book) sendClaims(reqs []ClaimRequest) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.keeper.Margin().RPCTimeout)
	defer cancel()
	notAfter := b.keeper.NotAfter()
	for i := range reqs {
		reqs[i].NotAfter = notAfter
	}
	return b.store.Claim(ctx, reqs)
}

// Take takes over a tick whose lease lapsed; rerun as in TakeRequest. The answer is Paused for a tick that was to be
// run again if its job is paused: nothing begins in a pause (rule T8).
func (b *Book) Take(ctx context.Context, t Tick, rerun bool) (Answer, error) {
	if rerun {
		now, err := b.keeper.Now(ctx)
		if err != nil {
			return Answer{}, err
		}
		if paused, err := b.paused(ctx, t.Job, now); err != nil || paused {
			return Answer{Status: Paused, Tick: t, Now: now}, err
		}
	}
	return b.take(ctx, t, TakeRequest{Rerun: rerun})
}

// Fill takes a tick that ended without having run, to run it after all. It answers Taken if the tick is no longer
// one of these.
func (b *Book) Fill(ctx context.Context, t Tick) (Answer, error) {
	return b.take(ctx, t, TakeRequest{Fill: true})
}

func (b *Book) take(ctx context.Context, t Tick, r TakeRequest) (Answer, error) {
	l, err := b.Server(ctx)
	if err != nil {
		return Answer{}, err
	}
	r.Job, r.At, r.From = t.Job, t.At, t.Lease
	r.Lease, r.Claimant = l.Ref(), b.claimant(l)
	a, err := b.sendTake(ctx, r)
	if errors.Is(err, lease.ErrUnavailable) || coalesce.Silent(err) {
		a, err = b.sendTake(ctx, r)
	}
	return a, unavailable("take over", err)
}

func (b *Book) sendTake(ctx context.Context, r TakeRequest) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.keeper.Margin().RPCTimeout)
	defer cancel()
	r.NotAfter = b.keeper.NotAfter()
	return b.store.Take(ctx, r)
}

// beginning is a start, and the instant until which it may be carried out; zero: while its request is valid. A
// repeated start is not carried out after its time.
type beginning struct {
	StartRequest
	until   time.Time
	startBy time.Time
}

// Start records that r begins, under l, before anything is executed (rule T1). claim is StartRequest.Claim.
//
// A start without an answer may have been carried out, and another process would conclude that its run crashed. So
// Start repeats the request while the lease is good, for one TTL at most. No request is carried out after startBy
// (zero: no bound).
func (b *Book) Start(ctx context.Context, claim lease.Ref, r run.Record, l *lease.Lease, startBy time.Time) (a Answer, err error) {
	enough := time.NewTimer(b.keeper.Margin().TTL)
	defer enough.Stop()
	begin := &beginning{StartRequest: StartRequest{Run: r, Claim: claim, Lease: l.Ref()}, startBy: startBy}
	a, err = b.starts.submit(ctx, begin)
	for pause := 50 * time.Millisecond; err != nil; pause = min(2*pause, b.keeper.Margin().Heartbeat) {
		select {
		case <-time.After(pause):
			a, err = b.starts.submit(ctx, begin)
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

func (b *Book) sendStarts(starts []*beginning) ([]Answer, error) {
	reqs, notAfter := make([]StartRequest, len(starts)), b.keeper.NotAfter()
	for i, s := range starts {
		reqs[i] = s.StartRequest
		if reqs[i].NotAfter = notAfter; !s.until.IsZero() && s.until.Before(notAfter) {
			reqs[i].NotAfter = s.until
		}
		s.until = s.startBy
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.keeper.Margin().RPCTimeout)
	defer cancel()
	return b.store.Start(ctx, reqs)
}

// Close records an outcome and frees the lease in the same atomic step (rule T9).
func (b *Book) Close(ctx context.Context, r CloseRequest) (Answer, error) {
	return b.closes.submit(ctx, r)
}

func (b *Book) sendCloses(reqs []CloseRequest) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.keeper.Margin().RPCTimeout)
	defer cancel()
	return b.store.Close(ctx, reqs)
}

// Server returns the lease under which this process's claims live. It is acquired when first needed and again after
// a loss.
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

// renew prepares another try after the store refused a lapsed lease or a late request.
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

// Release releases the lease of this process, and with it everything that it claimed and did not start.
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

package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/observe"
)

// maxBatch is how many items travel in one request (rule L4).
const maxBatch = 500

// Options configure a Keeper. Only Store is required.
type Options struct {
	Store Store
	// Notify tells waiting acquires that a key may be free. Nil: they only poll.
	Notify Notifier
	// Margin has the times of all leases of this Keeper. Default MarginFor(DefaultTTL).
	Margin Margin
	// Clock is a replacement for tests in virtual time. Default: the machine's clock.
	Clock clock.Clock
	// Seen is the highest epoch of the store that earlier processes knew (Keeper.Epoch). Default 0: none.
	Seen Epoch
	// OnStep, if not nil, is called after the store's clock has stepped by more than 5 s (rule L12), on a goroutine
	// of its own: no heartbeat waits for it.
	OnStep func(step time.Duration)
	// Observe receives what the requests to the store come to, and which leases are granted and lost. It is called on
	// the path of the work, and must return at once. Nil: nobody does.
	Observe observe.Func
}

// A Keeper keeps the leases of one process in one store. It renews all of them in one request per heartbeat, and
// sends acquires and releases that come at the same time together. It is safe for concurrent use. It has a
// goroutine only while it has leases.
type Keeper struct {
	store    Store
	notify   Notifier
	margin   Margin
	clock    clock.Clock
	observe  observe.Func
	time     *storeTime
	epoch    atomic.Int64             // the highest that an acquire was answered with
	back     atomic.Pointer[holdBack] // the latest; nil: none was met
	acquires *coalesce.Batcher[AcquireRequest, reply]
	width    *coalesce.Width // of acquires
	bound    bound           // of requests
	releases *coalesce.Batcher[Ref, reply]
	reads    *coalesce.Batcher[Key, reply]
	renewals *coalesce.Batcher[*Lease, struct{}] // those that somebody waits for, beside the heartbeat

	mu      sync.Mutex
	held    map[Nonce]*Lease
	beating bool
	wake    chan struct{} // tells the heartbeat that its deadlines changed
	closed  bool

	goroutines sync.WaitGroup
}

// reply is one answer with the instants that its meaning depends on.
type reply struct {
	*Answer
	now  time.Time     // the store's
	sent time.Duration // boot instant of the sending
}

// NewKeeper creates a Keeper. If the margin does not hold, the error wraps ErrMargin and contains the numbers.
// NewKeeper starts no goroutine and sends no request.
func NewKeeper(o Options) (*Keeper, error) {
	if o.Store == nil {
		return nil, errors.New("lease: Options.Store is nil")
	}
	if o.Margin == (Margin{}) {
		o.Margin = MarginFor(DefaultTTL)
	}
	if err := o.Margin.Check(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	k := &Keeper{store: o.Store, notify: o.Notify, margin: o.Margin, clock: o.Clock, observe: o.Observe,
		time: &storeTime{clock: o.Clock, onGap: o.OnStep},
		held: make(map[Nonce]*Lease), wake: make(chan struct{}, 1)}
	k.epoch.Store(int64(o.Seen))
	k.time.onSteady = k.steadied
	k.width = coalesce.NewWidth(maxBatch, k.margin.RPCTimeout)
	atOnce := 1
	if o, ok := o.Store.(Overlapping); ok {
		atOnce = o.AcquiresAtOnce()
	}
	k.acquires = coalesce.New(k.width.Now(), atOnce, func(r AcquireRequest) string { return string(r.Key) }, k.sendAcquires)
	k.releases = coalesce.New(maxBatch, 1, func(r Ref) string { return string(r.Key) }, k.sendReleases)
	k.reads = coalesce.New(maxBatch, 1, func(key Key) string { return string(key) }, k.sendReads)
	k.renewals = coalesce.New(maxBatch, 1, func(l *Lease) string { return string(l.ref.Key) }, k.sendRenewals)
	return k, nil
}

// Margin returns the margin of all leases of the Keeper.
func (k *Keeper) Margin() Margin { return k.margin }

// Boot returns the time of the Keeper's clock, since the machine's boot. It also runs while the machine is
// suspended.
func (k *Keeper) Boot() time.Duration { return k.clock.Boot() }

// Epoch returns the highest epoch of the store that is known. Give it to the Keepers of later processes
// (Options.Seen).
func (k *Keeper) Epoch() Epoch { return Epoch(k.epoch.Load()) }

// Now returns the store's time. It asks the store once; later calls extrapolate on the boot clock (rule L12). If
// the store does not answer, the error wraps ErrUnavailable.
func (k *Keeper) Now(ctx context.Context) (time.Time, error) {
	if t, ok := k.time.ticks(); ok {
		return t, nil
	}
	if err := k.Sync(ctx); err != nil {
		return time.Time{}, err
	}
	t, _ := k.time.ticks()
	return t, nil
}

// Estimate returns the likeliest time of the store's clock, and how far off it can be, given how long answers took.
// ok is false before the first answer. Use it to compare clocks; requests use Now.
func (k *Keeper) Estimate() (now time.Time, within time.Duration, ok bool) { return k.time.estimate() }

// Passed returns a time that both the store's clock and the schedules have reached: after a step of the store's
// clock the two differ for a while (rule L12). It is zero before the first answer.
func (k *Keeper) Passed() time.Time {
	if !k.time.known() {
		return time.Time{}
	}
	return k.time.passed()
}

// Jumped reports whether the store's clock has jumped over the instant at, in a step larger than MaxJump that this
// process saw. That time did not pass, so a tick at that instant is not owed.
func (k *Keeper) Jumped(at time.Time) bool { return k.time.jumped(at) }

// Leapt returns how much time the store's clock has jumped over in such steps, in total. Nothing has become older
// by that time.
func (k *Keeper) Leapt() time.Duration { return k.time.leapt() }

// Steady reports whether the store's clock has not stepped for a minute, as far as this process has watched it.
func (k *Keeper) Steady() bool { return k.time.steady() }

// Reached reports whether the instant at is no more than ahead after the store's time. If it is not, left is how
// long until then. It asks the store, unless the last answer is younger than one heartbeat.
func (k *Keeper) Reached(ctx context.Context, at time.Time, ahead time.Duration) (left time.Duration, ok bool) {
	if k.time.age() > k.margin.Heartbeat || !k.time.known() {
		_ = k.Sync(ctx)
	}
	now, known := k.time.now()
	if !known {
		return 0, false
	}
	left = at.Sub(now) - ahead
	return left, left <= 0
}

// Sync asks the store for its time again. The request takes one RPC timeout at most; the error wraps
// ErrUnavailable.
func (k *Keeper) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.margin.RPCTimeout)
	defer cancel()
	sent := k.clock.Boot()
	r, err := k.store.Read(ctx, nil)
	if err != nil {
		return unavailable("ask the store's time", err)
	}
	k.time.sample(r.Now, sent, k.clock.Boot())
	return nil
}

// NotAfter returns the instant, in the store's time, after which the store must not carry out a request that is
// sent now (rule L1). It is zero before the first call of Sync or Now.
func (k *Keeper) NotAfter() time.Time {
	t, ok := k.time.now()
	if !ok {
		return time.Time{}
	}
	return t.Add(k.margin.RPCTimeout)
}

// Close ends the Keeper: later acquires fail with ErrClosed. It returns when the Keeper's goroutines have ended,
// after one RPC timeout at most. Leases that are still held are lost (ErrClosed): their work is told to stop, and
// they lapse. Release them first.
func (k *Keeper) Close() {
	k.acquires.Close()
	k.releases.Close()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	for _, l := range k.leases() {
		l.abandoned()
	}
	k.poke()
	k.goroutines.Wait()
}

// call sends one batch. The Keeper's own timeout bounds it, and never the caller's context: an abandoned request
// would leave its effect behind.
func (k *Keeper) call(what string, n int, f func(context.Context) (Reply, error)) (Reply, time.Duration, error) {
	sent := k.clock.Boot()
	r, err := f(k.bound.at(sent, k.margin.RPCTimeout))
	k.asked(what, sent, err)
	if err != nil {
		return r, sent, unavailable(what, err)
	}
	if len(r.Answers) != n {
		return r, sent, fmt.Errorf("%s: the store answered %d of %d items", what, len(r.Answers), n)
	}
	if !r.Now.IsZero() {
		k.time.sample(r.Now, sent, k.clock.Boot())
	}
	return r, sent, nil
}

// asked tells what a request has come to.
func (k *Keeper) asked(what string, sent time.Duration, err error) {
	if k.observe == nil {
		return
	}
	what, _, _ = strings.Cut(what, " ")
	e := observe.Event{On: observe.Ended, Of: observe.Request, Name: what, Outcome: "succeeded", Took: k.clock.Boot() - sent}
	if err != nil {
		e.Outcome, e.Reason = "failed", err.Error()
	}
	k.observe(e)
}

// A bound makes contexts that bound requests. A context costs as much as a tenth of a request, so those that are sent
// within a twentieth of the bound share one, which ends when the first of them must.
type bound struct {
	mu   sync.Mutex
	ctx  context.Context
	from time.Duration // boot instant
}

// at is a context that ends after most, or up to a twentieth sooner.
func (b *bound) at(now, most time.Duration) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || now-b.from > most/20 {
		ctx, end := context.WithTimeout(context.Background(), most)
		context.AfterFunc(ctx, end)
		b.ctx, b.from = ctx, now
	}
	return b.ctx
}

func (k *Keeper) sendAcquires(reqs []AcquireRequest) ([]reply, error) {
	notAfter := k.NotAfter()
	for i := range reqs {
		reqs[i].NotAfter, reqs[i].Seen = notAfter, Epoch(k.epoch.Load())
	}
	r, sent, err := k.call("acquire", len(reqs), func(ctx context.Context) (Reply, error) { return k.store.Acquire(ctx, reqs) })
	k.acquires.Limit(k.width.Learn(len(reqs), k.clock.Boot()-sent, err == nil))
	if err != nil {
		return nil, unansweredError{sent, err}
	}
	k.saw(r.Epoch)
	return replies(r, sent), nil
}

// saw notes an epoch of the store, so that an older state of the store is recognised (rule L9).
func (k *Keeper) saw(e Epoch) {
	for {
		known := k.epoch.Load()
		if int64(e) <= known || k.epoch.CompareAndSwap(known, int64(e)) {
			return
		}
	}
}

func (k *Keeper) sendReleases(refs []Ref) ([]reply, error) {
	r, sent, err := k.call("release", len(refs), func(ctx context.Context) (Reply, error) { return k.store.Release(ctx, refs) })
	return replies(r, sent), err
}

func (k *Keeper) sendReads(keys []Key) ([]reply, error) {
	r, sent, err := k.call("read", len(keys), func(ctx context.Context) (Reply, error) { return k.store.Read(ctx, keys) })
	return replies(r, sent), err
}

func (k *Keeper) sendRenewals(leases []*Lease) ([]struct{}, error) {
	k.renewChunk(leases, k.clock.Boot()+k.margin.RPCTimeout)
	return make([]struct{}, len(leases)), nil
}

// renewNow renews one lease at once, together with others for which the same was asked. It returns when the store has
// answered, or not in time.
func (k *Keeper) renewNow(l *Lease) { _, _ = k.renewals.Do(context.Background(), l) }

func replies(r Reply, sent time.Duration) []reply {
	out := make([]reply, len(r.Answers))
	for i := range r.Answers {
		out[i] = reply{&r.Answers[i], r.Now, sent}
	}
	return out
}

func unavailable(what string, err error) error {
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

// Read returns the record of a key and the store's time, without acquiring the key. The record is zero if there is
// none. The error wraps ErrUnavailable if the store does not answer.
func (k *Keeper) Read(ctx context.Context, key Key) (now time.Time, r Record, err error) {
	answer, err := k.reads.Do(context.WithoutCancel(ctx), key)
	if err != nil {
		return time.Time{}, Record{}, err
	}
	return answer.now, answer.Record, ctx.Err()
}

// Unshared returns the holders of live leases that exclude nobody (OnceKey), by their nonces: those of runs under
// the policy Allow, and of processes. It tells the Keeper the store's time, as any other call does.
func (k *Keeper) Unshared(ctx context.Context) (map[Nonce]Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, k.margin.RPCTimeout)
	defer cancel()
	sent := k.clock.Boot()
	r, err := k.store.List(ctx, oncePrefix, false)
	if err != nil {
		return nil, unavailable("list leases", err)
	}
	k.time.sample(r.Now, sent, k.clock.Boot())
	owners := make(map[Nonce]Holder, len(r.Answers))
	for _, a := range r.Answers {
		owners[a.Record.Owner] = a.Record.Holder
	}
	return owners, nil
}

// RequestRelease asks the hold ref for its lease, as the policy Replace does (rule T7). It returns false if that
// hold is gone, or did not declare Replace. If the store does not answer, the error wraps ErrUnavailable, and the
// request may have been written.
func (k *Keeper) RequestRelease(ctx context.Context, ref Ref, by Holder) (bool, error) {
	reply, _, err := k.call("ask for "+string(ref.Key), 1, func(ctx context.Context) (Reply, error) { return k.store.RequestRelease(ctx, ref, by) })
	if err != nil {
		return false, err
	}
	return reply.Answers[0].Status == OK, ctx.Err()
}

// Break breaks the live hold of ref.Key (rule L5); if ref.Owner is not zero, only that hold. now is the store's
// time, and r the record afterwards. ok is false if nothing was held. If the store does not answer, the error wraps
// ErrUnavailable, and the lease may be broken.
func (k *Keeper) Break(ctx context.Context, ref Ref, b Broken) (now time.Time, r Record, ok bool, err error) {
	reply, _, err := k.call("break", 1, func(ctx context.Context) (Reply, error) { return k.store.Break(ctx, ref, b) })
	if err != nil {
		return time.Time{}, Record{}, false, err
	}
	return reply.Now, reply.Answers[0].Record, reply.Answers[0].Status == OK, ctx.Err()
}

package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// host is a simulated server process.
type host struct {
	*scheduler.Server
	backend *scheduler.Backend
	link    *sim.Link
	ticks   *tickLink
	cancel  context.CancelFunc
	done    chan struct{}
	spool   *spool
	err     error
}

// tickLink cuts the ticks off together with the leases, as one network does.
type tickLink struct {
	tick.Store
	mu      sync.Mutex
	cut     bool
	deaf    string        // which requests, claim or start, are carried out where they win, and the answer lost; last claim: and all is cut then; or jobs: these cannot be read
	claims  int           // asked for
	slow    time.Duration // what a Close takes on its way
	claimed func()        // hears of each claim that was answered; set before use
}

func (l *tickLink) fail(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		return nil
	}
	return lease.ErrUnavailable
}

func (l *tickLink) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	if err := l.fail(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.claims += len(r)
	l.mu.Unlock()
	a, err := l.Store.Claim(ctx, r)
	if l.claimed != nil {
		l.claimed()
	}
	return a, errors.Join(err, l.unheard("claim", a), l.unheard("last claim", a))
}

func (l *tickLink) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	if err := l.fail(ctx); err != nil {
		return nil, err
	}
	a, err := l.Store.Start(ctx, r)
	return a, errors.Join(err, l.unheard("start", a))
}

func (l *tickLink) unheard(what string, as []tick.Answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf == what && slices.ContainsFunc(as, func(a tick.Answer) bool { return a.Status == tick.Won }) {
		l.cut = l.cut || what == "last claim"
		return lease.ErrUnavailable
	}
	return nil
}

func (l *tickLink) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	if err := l.fail(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	time.Sleep(slow)
	return l.Store.Close(ctx, r)
}

func (l *tickLink) Orphans(ctx context.Context, q tick.Look) (tick.Found, error) {
	if err := l.fail(ctx); err != nil {
		return tick.Found{}, err
	}
	return l.Store.Orphans(ctx, q)
}

func (l *tickLink) Owed(ctx context.Context, q tick.OwedLook) (tick.Found, error) {
	if err := l.fail(ctx); err != nil {
		return tick.Found{}, err
	}
	return l.Store.Owed(ctx, q)
}

func (l *tickLink) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	if err := l.fail(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	unread := l.deaf == "jobs"
	l.mu.Unlock()
	if unread {
		return nil, lease.ErrUnavailable
	}
	return l.Store.Jobs(ctx, q)
}

// asked is how many claims there were.
func (l *tickLink) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims
}

func (h *host) cut(cut bool) {
	h.link.Cut(cut)
	h.ticks.mu.Lock()
	h.ticks.cut = cut
	h.ticks.mu.Unlock()
}

// spool is a host's spool, in memory.
type spool struct {
	mu    sync.Mutex
	items []scheduler.Item
}

func (s *spool) Put(i scheduler.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, i)
	return nil
}

// kept are its items, for who looks on.
func (s *spool) kept() []scheduler.Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items)
}

func (s *spool) Deliver(give func(scheduler.Item) error) error {
	for {
		s.mu.Lock()
		if len(s.items) == 0 {
			s.mu.Unlock()
			return nil
		}
		i := s.items[0]
		s.mu.Unlock()
		if err := give(i); err != nil {
			return err
		}
		s.mu.Lock()
		s.items = s.items[1:]
		s.mu.Unlock()
	}
}

// world observes from outside what runs when.
type world struct {
	t *testing.T
	b *memory.Backend

	mu   sync.Mutex
	work map[string]int // at work now, by job
	runs map[time.Time]int
}

// newWorld begins between two ticks: synctest's time begins on one.
func newWorld(t *testing.T) *world {
	time.Sleep(1500 * time.Millisecond)
	return &world{t: t, b: memory.New(memory.Options{}), work: map[string]int{}, runs: map[time.Time]int{}}
}

// target works for d, watching that it is alone.
func (w *world) target(d time.Duration) run.Target {
	return run.Func(func(ctx context.Context, c run.Call) error {
		w.mu.Lock()
		w.runs[c.Run.Tick]++
		if w.work[c.Run.Job]++; w.work[c.Run.Job] > 1 {
			w.t.Errorf("%d runs of %s at once, tick %s", w.work[c.Run.Job], c.Run.Job, c.Run.Tick)
		}
		w.mu.Unlock()
		defer func() { w.mu.Lock(); w.work[c.Run.Job]--; w.mu.Unlock() }()
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// times is how often a tick was run.
func (w *world) times(at time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[at]
}

// ran counts the runs of each tick. Sleeping in virtual time orders nothing: what others write is read under a lock.
func (w *world) ran() map[time.Time]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.runs)
}

func (w *world) host(seed uint64, skew time.Duration) *host {
	w.t.Helper()
	return w.hostWith(seed, clock.Virtual{Start: time.Now().Add(-time.Duration(seed) * time.Hour), WallOffset: skew})
}

func (w *world) hostWith(seed uint64, virtual clock.Clock) *host {
	w.t.Helper()
	st := w.b.Store()
	link, tl := sim.NewLink(st.Leases, seed), &tickLink{Store: st.Ticks}
	link.Latency = 5 * time.Millisecond
	var backend atomic.Pointer[scheduler.Backend]
	k, err := lease.NewKeeper(lease.Options{Store: link, Clock: virtual, OnStep: func(d time.Duration) { go backend.Load().ClockStepped(d) }})
	if err != nil {
		w.t.Fatal(err)
	}
	self := lease.Holder{Host: fmt.Sprint("host-", seed), PID: int(seed), Command: scheduler.ServerCommand("app")}
	sp := &spool{}
	p := &scheduler.Backend{Name: "sim", Keeper: k, Book: tick.NewBook(tl, k, self), Ticks: tl, History: st.History, Self: self, Spool: sp,
		TimeOfDay: virtual.Wall, Log: slog.New(slog.DiscardHandler)}
	backend.Store(p)
	w.t.Cleanup(k.Close)
	return &host{Server: scheduler.NewServer(p, "app"), backend: p, link: link, ticks: tl, spool: sp}
}

func (h *host) start(t *testing.T, jobs ...*scheduler.Job) {
	t.Helper()
	if err := h.Load(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	go func() {
		defer close(h.done)
		h.err = h.Run(ctx, 10*time.Second)
	}()
}

func (h *host) stop() { h.cancel(); <-h.done }

func newJob(t *testing.T, expr string, target run.Target, change func(*job.Policy)) *scheduler.Job {
	t.Helper()
	j := &scheduler.Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{expr}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
		Target: target}
	j.Spec.Policy.Retries.MaxAttempts = 1
	if change != nil {
		change(&j.Spec.Policy)
	}
	return j
}

func (w *world) history() []tick.Tick {
	w.t.Helper()
	rows, err := w.b.Store().History.Ticks(w.t.Context(), history.Query{Job: "app/j", Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}

// Promise 8: one run per tick, whatever the servers' clocks say and whenever they boot.
// Holds: promise 8.
func TestEachTickIsRunByExactlyOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var hosts []*host
		for i, skew := range []time.Duration{0, 90 * time.Second, -90 * time.Second} {
			h := w.host(uint64(i+1), skew)
			h.start(t, newJob(t, "* * * * *", w.target(300*time.Millisecond), nil))
			hosts = append(hosts, h)
			time.Sleep(37 * time.Second) // boots straddle a minute
		}
		time.Sleep(30 * time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		rows := w.history()
		if len(rows) < 30 {
			t.Fatalf("%d ticks in more than 30 minutes", len(rows))
		}
		for _, r := range rows {
			if r.Outcome != run.Succeeded || w.times(r.At) != 1 {
				t.Errorf("tick %s: %s, run %d times", r.At, r.Outcome, w.times(r.At))
			}
		}
	})
}

// Every tick ends in exactly one outcome and none runs twice, under partitions and deaths.
// Holds: promises 8, 9, 10.
func TestEveryTickHasOneOutcomeUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Seeds(15) {
		synctest.Test(t, func(t *testing.T) { tickFaults(t, seed) })
	}
}

func tickFaults(t *testing.T, seed uint64) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	var hosts []*host
	for i := range uint64(3) {
		h := w.host(i+1, 0)
		h.start(t, newJob(t, "@every 10s", w.target(time.Duration(rng.Int64N(int64(4*time.Second)))), nil))
		hosts = append(hosts, h)
	}
	for range 40 {
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
		hosts[rng.IntN(3)].cut(rng.IntN(2) == 0)
	}
	for _, h := range hosts {
		h.cut(false)
	}
	time.Sleep(5 * time.Minute) // settled by then
	for _, h := range hosts {
		h.stop()
	}
	jobs, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	outcomes := map[time.Time]run.Outcome{}
	for _, r := range w.history() {
		for at := r.At; ; at = at.Add(10 * time.Second) {
			if outcomes[at] != "" {
				t.Errorf("seed %d: tick %s has two rows", seed, at)
			}
			outcomes[at] = r.Outcome
			if r.Through.IsZero() || !at.Before(r.Through) {
				break
			}
		}
	}
	set, _ := schedule.Parse("@every 10s", time.UTC)
	n := 0
	for at, _ := set.Next(jobs[0].Since); !at.After(jobs[0].Mark); at, _ = set.Next(at) {
		n++
		out := outcomes[at]
		if !out.Valid() {
			t.Errorf("seed %d: tick %s ended as %q", seed, at, out)
		}
		if w.times(at) > 1 {
			t.Errorf("seed %d: tick %s was run %d times", seed, at, w.times(at))
		}
	}
	if n < 30 {
		t.Errorf("seed %d: only %d ticks are settled", seed, n)
	}
}

// Rule T3: a run that crashed is run again where its job asks for it, once, with a larger token.
// Holds: promise 15, T3.
func TestACrashedRunIsRunAgainOnlyWhereAskedFor(t *testing.T) {
	for _, on := range []job.OnCrash{job.CrashSkip, job.CrashRerun} {
		t.Run(string(on), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.OnCrash = on }
				dying := w.host(1, 0)
				stuck := run.Func(func(ctx context.Context, c run.Call) error { <-ctx.Done(); return context.Cause(ctx) })
				dying.start(t, newJob(t, "*/5 * * * *", stuck, policy))
				now := time.Now()
				time.Sleep(now.Truncate(5 * time.Minute).Add(5*time.Minute + time.Second).Sub(now))
				dying.cut(true) // dead, to all others
				other := w.host(2, 0)
				other.start(t, newJob(t, "*/5 * * * *", w.target(time.Second), policy))
				time.Sleep(time.Minute)
				rows := w.history()
				if len(rows) != 1 {
					t.Fatalf("%d ticks: %+v", len(rows), rows)
				}
				want, reruns := run.Crashed, 0
				if on == job.CrashRerun {
					want, reruns = run.Succeeded, 1
				}
				if rows[0].Outcome != want || w.times(rows[0].At) != reruns {
					t.Errorf("outcome %s after %d further runs; want %s after %d", rows[0].Outcome, w.times(rows[0].At), want, reruns)
				}
				dying.cut(false)
				dying.stop()
				other.stop()
				// The run's own late report amends what others inferred, unless the tick was re-run.
				late := w.history()[0]
				if on == job.CrashSkip && late.Outcome != run.Lost || on == job.CrashRerun && late.Outcome != run.Succeeded {
					t.Errorf("after the late report: %s", late.Outcome)
				}
			})
		})
	}
}

// Ticks at which no server was up are recorded as missed, as one range.
// Holds: promise 10, T4.
func TestTicksThatNobodyClaimedAreSettledAsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5 * time.Minute)
		h.stop()
		time.Sleep(time.Hour)
		h = w.host(2, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		h.stop()
		missed := 0
		for _, r := range w.history() {
			if r.Outcome == run.Missed {
				if missed++; r.Count < 58 || r.Count > 60 {
					t.Errorf("a range of %d ticks: %+v", r.Count, r)
				}
			}
		}
		if missed != 1 {
			t.Errorf("%d rows of missed ticks, want one range", missed)
		}
	})
}

// What was missed before a run is told while that runs.
func TestTicksMissedBeforeALongRunAreSettledDuringIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := newJob(t, "* * * * *", w.target(0), nil)
		st, at := w.b.Store(), minute().Add(-30*time.Minute)
		if _, err := st.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "app/j", Definition: j.Spec.Definition(), Since: at.Add(-30 * time.Minute)}}); err != nil {
			t.Fatal(err)
		}
		// Another server's run goes on.
		a, err := st.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "other", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: lease.DefaultTTL}})
		if err != nil || a.Answers[0].Status != lease.OK {
			t.Fatal(a, err)
		}
		ref := a.Answers[0].Record.Ref()
		ctx, dies := context.WithCancel(t.Context())
		go func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Second) {
				_, _ = st.Leases.Renew(ctx, []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
			}
		}()
		if c, err := st.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: at, Lease: ref}}); err != nil || c[0].Status != tick.Won {
			t.Fatal(c, err)
		}
		h := w.host(1, 0)
		h.start(t, j)
		time.Sleep(20 * time.Minute)
		if r := w.row(at.Add(-time.Minute)); r.Outcome != run.Missed {
			t.Errorf("the tick before it is %q", r.Outcome)
		}
		if r := w.row(at); r.State == tick.Closed {
			t.Errorf("%+v", r)
		}
		h.stop()
		dies()
		time.Sleep(10 * time.Second)
	})
}

// What a host can never deliver does not keep it from settling what nobody claimed.
func TestAnUndeliverableItemDelaysSettlingAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5 * time.Minute)
		h.stop()
		time.Sleep(time.Hour)
		h = w.host(2, 0)
		h.backend.Spool = stuck{}
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		h.stop()
		if n := slices.IndexFunc(w.history(), func(r tick.Tick) bool { return r.Outcome == run.Missed }); n < 0 {
			t.Error("the hour without a server was never settled")
		}
	})
}

// stuck is a spool with something that cannot be delivered.
type stuck struct{}

func (stuck) Put(scheduler.Item) error                 { return nil }
func (stuck) Deliver(func(scheduler.Item) error) error { return errors.New("this one is not taken") }

// Rule T5 and the policies of promise 12.
// Holds: promises 9, 11, 12, 13, T5.
func TestOverlap(t *testing.T) {
	cases := map[job.Concurrency]map[run.Outcome]bool{
		job.Forbid:  {run.Succeeded: true, run.Skipped: true},
		job.Wait:    {run.Succeeded: true, run.Skipped: true},
		job.Replace: {run.Replaced: true, run.Succeeded: false},
	}
	for policy, want := range cases {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var hosts []*host
				for i := range uint64(2) {
					h := w.host(i+1, 0)
					h.start(t, newJob(t, "@every 60s", w.target(150*time.Second), func(p *job.Policy) { p.Concurrency = policy }))
					hosts = append(hosts, h)
				}
				time.Sleep(20 * time.Minute)
				for _, h := range hosts {
					h.stop()
				}
				got := map[run.Outcome]int{}
				for _, r := range w.history() {
					got[r.Outcome]++
				}
				for out, must := range want {
					if must && got[out] < 3 {
						t.Errorf("outcomes %v: want some %s", got, out)
					}
				}
			})
		})
	}
}

// A drain lets what runs go on, then tells it to stop, and records that as a shutdown.
func TestADrainLetsWorkEndAndThenStopsIt(t *testing.T) {
	for _, c := range []struct {
		work time.Duration
		want run.Outcome
	}{{5 * time.Second, run.Succeeded}, {time.Hour, run.Canceled}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := w.host(1, 0)
			h.start(t, newJob(t, "@every 60s", w.target(c.work), nil))
			now := time.Now()
			time.Sleep(now.Truncate(time.Minute).Add(61 * time.Second).Sub(now))
			start := time.Now()
			h.stop()
			if d := time.Since(start); d > 11*time.Second {
				t.Errorf("drained for %s", d)
			}
			rows := w.history()
			if len(rows) != 1 || rows[0].Outcome != c.want {
				t.Errorf("%+v, want one %s", rows, c.want)
			}
			if c.want == run.Canceled && rows[0].Reason != run.ReasonShutdown {
				t.Errorf("reason %q", rows[0].Reason)
			}
			if r, err := w.b.Store().Leases.List(t.Context(), "", false); err != nil || len(r.Answers) > turns(r) {
				t.Errorf("left behind: %+v %v", r.Answers, err)
			}
		})
	}
}

// Rule T11: the latest definition wins, and a server with another one fires nothing of that job.
// Holds: promise 24, T11.
func TestTheLatestDefinitionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, fresh := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		fresh.start(t, newJob(t, "*/7 * * * *", w.target(0), nil))
		changed := time.Now()
		time.Sleep(30 * time.Minute)
		old.stop()
		fresh.stop()
		for _, r := range w.history() {
			if r.At.After(changed) && (r.At.Minute()%7 != 0) {
				t.Errorf("tick %s (%s) belongs to the old definition, which ended at %s", r.At, r.Outcome, changed)
			}
		}
		events, err := w.b.Store().History.Events(t.Context(), history.Query{})
		if err != nil || !slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == "manifest-differs" }) {
			t.Errorf("no manifest-differs among %+v (%v)", events, err)
		}
	})
}

// Nothing starts while the store is down, and the tick says so.
// Holds: promise 7.
func TestWithTheStoreDownNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(2 * time.Minute)
		h.cut(true)
		before := len(w.ran())
		time.Sleep(5 * time.Minute)
		if len(w.ran()) != before {
			t.Errorf("%d runs without a store", len(w.ran())-before)
		}
		h.cut(false)
		time.Sleep(5 * time.Minute)
		h.stop()
		n := 0
		for _, r := range w.history() {
			if r.Outcome == run.Unavailable {
				n++
			}
		}
		if n < 3 {
			t.Errorf("%d ticks are unavailable after five minutes without a store: %+v", n, w.history())
		}
	})
}

// Missed ticks run afterwards where the job asks for it, the oldest first, one at a time.
// Holds: promise 15, T8.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	for policy, want := range map[job.CatchUp]int{job.CatchUpSkip: 0, job.CatchUpLatest: 1, job.CatchUpAll: 12} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				expr := "*/5 * * * *"
				change := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = policy, time.Hour }
				h := w.host(1, 0)
				h.start(t, newJob(t, expr, w.target(time.Second), change))
				time.Sleep(11 * time.Minute)
				h.stop()
				down := time.Now()
				time.Sleep(3 * time.Hour)
				up := time.Now()
				var both []*host
				for i := range uint64(2) {
					h := w.host(i+2, 0)
					h.start(t, newJob(t, expr, w.target(time.Second), change))
					both = append(both, h)
				}
				time.Sleep(30 * time.Minute)
				for _, h := range both {
					h.stop()
				}
				caught := 0
				for at, n := range w.ran() {
					if at.After(down) && at.Before(up.Add(-5*time.Minute)) {
						caught++
					}
					if n != 1 {
						t.Errorf("tick %s was run %d times", at, n)
					}
				}
				if caught < want-1 || caught > want {
					t.Errorf("%d ticks were caught up on, want %d", caught, want)
				}
				jobs, _ := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
				if jobs[0].Mark.Before(up) {
					t.Errorf("ticks are settled up to %s only; the servers came up at %s", jobs[0].Mark, up)
				}
			})
		})
	}
}

// A run that a shutdown canceled runs again on another server, where its job asks for it.
// Holds: promise 15, T3.
func TestAShutdownIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
		first, second := w.host(1, 0), w.host(2, 0)
		first.start(t, newJob(t, "*/5 * * * *", run.Func(func(ctx context.Context, _ run.Call) error { <-ctx.Done(); return ctx.Err() }), policy))
		now := time.Now()
		time.Sleep(now.Truncate(5 * time.Minute).Add(5*time.Minute + time.Second).Sub(now))
		second.start(t, newJob(t, "*/5 * * * *", w.target(time.Second), policy))
		first.stop()
		time.Sleep(time.Minute)
		second.stop()
		rows := w.history()
		if len(rows) != 1 || rows[0].Outcome != run.Succeeded || rows[0].Reruns != 1 {
			t.Errorf("%+v", rows)
		}
	})
}

// Rule T11: the ticks of a definition that ends get their outcome by it, not by the next one.
// Holds: promise 15, T11.
func TestAChangedScheduleSettlesTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		h.stop()
		time.Sleep(time.Hour)
		h = w.host(2, 0)
		h.start(t, newJob(t, "*/7 * * * *", w.target(0), nil))
		time.Sleep(20 * time.Minute)
		h.stop()
		n := 0
		for _, r := range w.history() {
			if r.Outcome == run.Missed {
				n += max(r.Count, 1)
			}
		}
		if n < 59 || n > 61 {
			t.Errorf("%d missed ticks are recorded of the hour without a server", n)
		}
	})
}

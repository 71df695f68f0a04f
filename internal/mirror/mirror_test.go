package mirror_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A network lies before the shared store. fails counts down the calls until one fails; below zero
// none does. A heartbeat that is late is not answered, and arrives some seconds later.
type network struct {
	cut   atomic.Bool
	late  atomic.Bool
	fails atomic.Int64
	calls atomic.Int64
}

func (n *network) err() error {
	if n.calls.Add(1); n.cut.Load() || n.fails.Add(-1) == 0 {
		return lease.ErrUnavailable
	}
	return nil
}

type farTicks struct {
	tick.Store
	*network
}

func (f farTicks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Jobs(ctx, q)
}

func (f farTicks) SetJobs(ctx context.Context, r []tick.JobRequest) ([]tick.Job, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.SetJobs(ctx, r)
}

func (f farTicks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	if err := f.err(); err != nil {
		return tick.Answer{}, err
	}
	if f.late.Load() {
		time.AfterFunc(7*time.Second, func() { _, _ = f.Store.Settle(context.WithoutCancel(ctx), r) })
		return tick.Answer{}, lease.ErrUnavailable
	}
	return f.Store.Settle(ctx, r)
}

type farHistory struct {
	history.Store
	*network
}

func (f farHistory) Append(ctx context.Context, e []history.Event) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.Append(ctx, e)
}

func (f farHistory) AppendRuns(ctx context.Context, r []run.Record) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.AppendRuns(ctx, r)
}

func (f farHistory) AppendTicks(ctx context.Context, t []tick.Tick) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.AppendTicks(ctx, t)
}

// backend is one of a process, over a store in memory.
func backend(t *testing.T, b *memory.Backend, self lease.Holder) *scheduler.Backend {
	t.Helper()
	st := b.Store()
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return &scheduler.Backend{Name: "sim", Keeper: k, Book: tick.NewBook(st.Ticks, k, self), Ticks: st.Ticks, History: st.History,
		Self: self, Log: slog.New(slog.DiscardHandler)}
}

type memoryCursor struct {
	mirror.Position
	mu   sync.Mutex
	name mirror.Name
}

func (c *memoryCursor) Load() (mirror.Position, error) { return c.Position, nil }
func (c *memoryCursor) Save(p mirror.Position) error   { c.Position = p; return nil }

func (c *memoryCursor) LoadName() (mirror.Name, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name, nil
}

func (c *memoryCursor) SaveName(name mirror.Name) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name = name
	return nil
}

// id is what the directory is called.
func (c *memoryCursor) id() string {
	n, _ := c.LoadName()
	return n.ID
}

// host is one with a directory of its own, beside a shared store.
type host struct {
	t       *testing.T
	backend *scheduler.Backend // of the directory
	shared  *scheduler.Backend
	net     *network
	cursor  *memoryCursor
	*mirror.Mirror
}

func newHost(t *testing.T, name string, shared *memory.Backend) *host {
	self := lease.Holder{Host: name, HostID: lease.NewNonce().String(), PID: 7}
	h := &host{t: t, net: &network{}, cursor: &memoryCursor{}}
	h.backend, h.shared = backend(t, memory.New(memory.Options{}), self), backend(t, shared, self)
	far := backend(t, shared, self)
	far.Ticks, far.History = farTicks{far.Ticks, h.net}, farHistory{far.History, h.net}
	h.Mirror = &mirror.Mirror{From: h.backend, To: far, Store: "s", Cursor: h.cursor}
	return h
}

// serve has a server of the host run a job until the test stops it.
func (h *host) serve(jobs ...*scheduler.Job) (stop func()) {
	h.t.Helper()
	s := scheduler.NewServer(h.backend, "app")
	if err := s.Load(h.t.Context(), jobs); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx, time.Minute) }()
	return func() { cancel(); <-done }
}

func (h *host) pass() {
	h.t.Helper()
	if err := h.Pass(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func newJob(t *testing.T, expr string, work time.Duration) *scheduler.Job {
	t.Helper()
	j := &scheduler.Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{expr}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
		Target: run.Func(func(context.Context, run.Call) error { time.Sleep(work); return nil })}
	j.Spec.Policy.Retries.MaxAttempts = 1
	return j
}

// told is what a backend tells of a job, without what a copy leaves out.
func told(t *testing.T, p *scheduler.Backend, job string) (all struct {
	Ticks  []tick.Tick
	Runs   []run.Record
	Events []history.Event
}) {
	t.Helper()
	var err error
	check := func() {
		if err != nil {
			t.Fatal(err)
		}
	}
	q := history.Query{Job: job, Limit: 10_000}
	all.Ticks, err = p.History.Ticks(t.Context(), q)
	check()
	for i := range all.Ticks {
		all.Ticks[i].Lease, all.Ticks[i].Live = lease.Ref{}, false
	}
	all.Runs, err = p.History.Runs(t.Context(), q)
	check()
	all.Events, err = p.History.Events(t.Context(), q)
	check()
	for i := range all.Events {
		all.Events[i].ID = ""
	}
	return all
}

// same checks that the shared store tells of a host's job what its directory tells.
func (h *host) same(job string) {
	h.t.Helper()
	here, there := told(h.t, h.backend, job), told(h.t, h.known().View(h.shared), job)
	here.Ticks = slices.DeleteFunc(here.Ticks, func(t tick.Tick) bool { return t.State != tick.Closed })
	if len(here.Ticks)+len(here.Runs)+len(here.Events) == 0 {
		h.t.Fatal("there is nothing to compare")
	}
	if !reflect.DeepEqual(here, there) {
		h.t.Errorf("%s: its directory tells\n%v\nthe shared store tells\n%v", h.backend.Self.Host, here, there)
	}
}

// known is what the shared store knows of the host.
func (h *host) known() mirror.Host {
	h.t.Helper()
	hosts, err := mirror.Hosts(h.t.Context(), h.shared)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, k := range hosts {
		if k.Name == h.backend.Self.Host && k.ID == h.cursor.id() {
			return k
		}
	}
	h.t.Fatalf("%s is not among %v", h.backend.Self.Host, hosts)
	return mirror.Host{}
}

// Rule H1: three hosts' ticks of one job are told apart, and each host's as it recorded them.
// Holds: promise 12, H1.
func TestEachHostsTicksAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		var hosts []*host
		for i := range 3 {
			h := newHost(t, fmt.Sprint("host-", i), shared)
			hosts = append(hosts, h)
			defer h.serve(newJob(t, "@every 7s", time.Duration(i)*5*time.Second))() // of one each tick is skipped after a run
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); h.Run(ctx) }()
			defer func() { <-done }()
			defer cancel()
		}
		time.Sleep(10 * time.Minute)
		for _, h := range hosts {
			seen := h.known().Seen
			if age := time.Since(seen); age > time.Minute {
				t.Errorf("%s was last heard of %s ago", h.backend.Self.Host, age)
			}
			if n := len(told(t, h.known().View(h.shared), "app/j").Ticks); n < 80 {
				t.Errorf("%s: %d ticks are copied", h.backend.Self.Host, n)
			}
		}
	})
}

// A copy survives the outage of the shared store, and a crash at any point; what is sent twice
// changes nothing.
// Holds: promise 12.
func TestWhatIsSentAgainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		stop := h.serve(newJob(t, "@every 2s", 3*time.Second))
		for i := range 40 {
			time.Sleep(17 * time.Second)
			h.net.fails.Store(int64(i%7) + 1) // the pass fails at some call, or does not
			if err := h.Pass(t.Context()); err != nil && i%3 == 0 {
				*h.Mirror = mirror.Mirror{From: h.From, To: h.To, Store: h.Store, Cursor: h.cursor} // and the process died
			}
		}
		h.net.fails.Store(0)
		h.net.cut.Store(true)
		if err := h.Pass(t.Context()); err == nil {
			t.Fatal("a pass without the store succeeded")
		}
		time.Sleep(20 * time.Minute)
		stop()
		h.net.cut.Store(false)
		h.pass()
		h.same("app/j")
		h.cursor.Position = mirror.Position{} // it was lost
		h.pass()
		h.same("app/j")
	})
}

// A tick that ends, is settled or runs again long after its instant is copied as it is then.
// Holds: promise 12.
func TestWhatChangesLaterIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		j := newJob(t, "*/10 * * * *", 25*time.Minute) // each third tick runs
		stop := h.serve(j)
		for range 30 {
			time.Sleep(4 * time.Minute)
			h.pass()
		}
		stop()
		time.Sleep(90 * time.Minute) // nobody is there: these ticks are missed
		h.pass()
		before := len(told(t, h.known().View(h.shared), "app/j").Ticks)
		j.Spec.Policy.CatchUp, j.Spec.Policy.CatchUpWindow = job.CatchUpLatest, time.Hour
		j.Target = run.Func(func(context.Context, run.Call) error { return nil })
		stop = h.serve(j)
		time.Sleep(10 * time.Minute)
		h.pass()
		stop()
		h.pass()
		h.same("app/j")
		if after := len(told(t, h.known().View(h.shared), "app/j").Ticks); after <= before {
			t.Errorf("%d rows of ticks after the absence, %d before it", after, before)
		}
	})
}

// A host that is gone produces no ticks: the last of it is what it told.
// Holds: promise 12.
func TestAHostThatIsGoneMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		gone, other := newHost(t, "gone", shared), newHost(t, "other", shared)
		stop := gone.serve(newJob(t, "@every 1m", time.Second))
		time.Sleep(10 * time.Minute)
		stop()
		gone.pass()
		rows := told(t, gone.known().View(gone.shared), "app/j").Ticks
		seen := gone.known().Seen
		defer other.serve(newJob(t, "@every 1m", time.Second))()
		for range 6 {
			time.Sleep(10 * time.Minute)
			other.pass()
		}
		if now := told(t, gone.known().View(gone.shared), "app/j").Ticks; !reflect.DeepEqual(now, rows) || !gone.known().Seen.Equal(seen) {
			t.Errorf("it has %d rows now, and had %d; seen %s, and was %s", len(now), len(rows), gone.known().Seen, seen)
		}
	})
}

// A pass where nothing happened asks the shared store for nothing.
func TestAQuietHostSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		stop := h.serve(newJob(t, "0 1 * * *", time.Second))
		time.Sleep(61 * time.Minute)
		h.pass()
		time.Sleep(20 * time.Minute) // until the tick is settled
		h.pass()
		calls := h.net.calls.Load()
		time.Sleep(10 * time.Second)
		h.pass()
		if n := h.net.calls.Load() - calls; n > 0 {
			t.Errorf("%d calls", n)
		}
		stop()
	})
}

// One process of a host copies at a time, and another takes over when it is gone.
func TestOneProcessOfAHostCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "a", memory.New(memory.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.Run(ctx) }()
		time.Sleep(time.Minute)
		second := &mirror.Mirror{From: h.From, To: h.shared, Store: "s", Cursor: &memoryCursor{}}
		position := second.Cursor.(*memoryCursor)
		if err := second.Once(t.Context()); err != nil || !position.Until.IsZero() {
			t.Errorf("the second one copied while the first was at it: %v", err)
		}
		cancel()
		<-done
		if err := second.Once(t.Context()); err != nil || position.Until.IsZero() {
			t.Errorf("it did not once the first was gone: %v", err)
		}
	})
}

// A shared store that lost everything knows the host, and its last week, again within a minute, and under the same id
// also once the host's process has ended: what the directory remembers is of the store's new installation.
// Holds: H1.
func TestAStoreThatForgotAHostLearnsItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		h := newHost(t, "a", shared)
		stop := h.serve(newJob(t, "@every 1m", time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		opens := func() {
			*h.Mirror = mirror.Mirror{From: h.From, To: h.To, Store: "installation-2", Cursor: h.cursor}
		}
		go func() {
			defer close(done)
			for h.Run(ctx) {
				_, _ = h.cursor.Save(mirror.Position{}), h.cursor.SaveName(mirror.Name{}) // there are no files of it
				opens()
			}
		}()
		time.Sleep(20 * time.Minute)
		id := h.known().ID
		shared.Forget()
		time.Sleep(time.Minute)
		if age := time.Since(h.known().Seen); age > time.Minute {
			t.Errorf("it was last heard of %s ago", age)
		}
		if n := len(told(t, h.known().View(h.shared), "app/j").Ticks); n < 19 {
			t.Errorf("%d ticks are copied", n)
		}
		cancel()
		<-done
		stop()
		h.backend.Self.BootID = "another"
		opens()
		h.pass()
		if got := ids(h); len(got) != 1 || got[h.backend.Self.Host] != id {
			t.Errorf("the hosts are %v, want %s alone", got, id)
		}
	})
}

// So does one that forgot it just before a job of the host changed: the change makes no row anew that hides the loss.
// Holds: H1.
func TestAChangeHidesNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		h := newHost(t, "a", shared)
		change := func(definition string) {
			t.Helper()
			def := tick.JobRequest{Name: "app/j", Definition: definition, Since: time.Now().UTC().Truncate(time.Second)}
			if _, err := h.backend.Ticks.SetJobs(t.Context(), []tick.JobRequest{def}); err != nil {
				t.Fatal(err)
			}
		}
		change("{}")
		h.pass()
		time.Sleep(5 * time.Second)
		shared.Forget()
		change(`{"schedule":"@hourly"}`)
		if err := h.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "forgotten this host") {
			t.Errorf("the pass ended with %v", err)
		}
	})
}

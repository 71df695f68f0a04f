package dibs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Options make a Client. The zero value serves for locks and for tasks; Cron needs App.
type Options struct {
	// App names the set of scheduled functions that this program has; they are "APP/NAME" in the store and in
	// the dibs commands. All processes of the program have the same App, and programs with different functions
	// have different ones. It is a lower-case letter, then up to 62 of a-z, 0-9 and -. It has no default, since
	// a binary that is renamed must not become another application. Required by Cron and CronTask.
	App string
	// Logger says what happens: runs that ended at INFO, failures at ERROR. Nobody waits for it. Default
	// slog.Default(); slog.New(slog.DiscardHandler) is silence.
	Logger *slog.Logger
	// Drain is how long runs and tasks may go on once Run's context has ended; then theirs end. Default 12 s,
	// which with the 10 s that functions then have to return is over within the 30 s that Kubernetes gives.
	Drain time.Duration
	// StateDir is a directory of this host, such as /var/lib/shop, where outcomes survive that the store could
	// not be told while it was away: the next process of the program delivers them. It belongs to one program
	// with one store and namespace. Default none: they are kept in memory for as long as the process lives.
	StateDir string
	// Queues are those whose tasks Run works. Default "default".
	Queues []string
	// Slots is how many tasks this process works at a time, 1 to 10,000. Default 10.
	Slots int
	// OnOverrun is called when a function still runs at the instant at which it must be gone, because its lease
	// is lost: it ignores its context, and from then on exclusion rests on the token alone. A program that
	// writes to something that cannot check tokens ends itself here (os.Exit). key is the lock's or the job's,
	// and empty for tasks, which share one lease. Nobody waits for it. It is logged in any case.
	OnOverrun func(key lease.Key)
	// Keeper keeps the leases of the store, for a program that has one already, or a test with a clock of its own. It
	// stays the caller's. Default: one that New makes and Close ends.
	Keeper *lease.Keeper
}

// Defaults of a process's end.
const (
	defaultDrain = queue.DefaultGrace
	stopGrace    = queue.DefaultStopGrace
)

// ErrClosed is returned by calls of a Client that was closed, or whose Run has begun where that is too late.
var ErrClosed = errors.New("dibs: the client is closed")

// A Client is a program's way to its store: locks (Do), scheduled functions (Cron), tasks (Handle, Enqueue). Make one
// per process and store with New. It is safe for concurrent use.
type Client struct {
	o      Options
	store  *store.Store
	keeper *lease.Keeper
	log    *slog.Logger
	self   lease.Holder
	place  *scheduler.Backend // nil where the store keeps no ticks

	backTold atomic.Int64 // when the hold-back ends of which was told last, by the boot clock

	mu      sync.Mutex // guards what follows
	wrong   []error    // what Cron and Handle refused: Run says it again
	crons   map[string]*scheduler.Job
	mux     queue.Mux
	handles int
	queue   *queue.Client // made when it is first needed
	begun   bool          // Run was called
	closed  bool
}

// New makes a Client of an opened store, which stays the caller's: close it after the Client. It asks the store
// nothing.
func New(st *store.Store, o Options) (*Client, error) {
	switch {
	case st == nil || st.Leases == nil:
		return nil, errors.New("dibs: New without a store: open one, for instance with postgres.Open(ctx, url)")
	case o.App != "" && !names().MatchString(o.App):
		return nil, fmt.Errorf("dibs: Options.App is %q: want %s", o.App, nameWant)
	case o.Drain < 0:
		return nil, fmt.Errorf("dibs: Options.Drain is %s: want 0 or more", o.Drain)
	case o.Slots < 0 || o.Slots > 10_000:
		return nil, fmt.Errorf("dibs: Options.Slots is %d: want 1 to 10000", o.Slots)
	}
	o.Drain = cmp.Or(o.Drain, defaultDrain)
	c := &Client{o: o, store: st, keeper: o.Keeper, log: aside.Logger(cmp.Or(o.Logger, slog.Default())), crons: map[string]*scheduler.Job{}}
	c.self = command.Self()
	if st.Properties.Reach == store.Host {
		c.self.HostID = st.Properties.InstallationID // rule H1
	}
	if c.keeper == nil {
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, OnStep: c.stepped,
			Margin: lease.MarginFor(cmp.Or(st.Properties.MaxTTL, lease.DefaultTTL))})
		if err != nil {
			return nil, fmt.Errorf("dibs: %w", err)
		}
		c.keeper = k
	}
	if st.Ticked() {
		c.place = c.newPlace()
	}
	return c, nil
}

// The names of apps and jobs are those of a manifest, so that every command takes them.
var names = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)

const nameWant = "a lower-case letter, then up to 62 of a-z, 0-9 and -"

// newPlace puts together what the scheduler works with.
func (c *Client) newPlace() *scheduler.Backend {
	st, self := c.store, c.self
	if c.o.App != "" {
		self.Command = scheduler.ServerOf(c.o.App)
	}
	p := &scheduler.Backend{Name: st.URL, Keeper: c.keeper, Book: tick.NewBook(st.Ticks, c.keeper, self), Ticks: st.Ticks,
		History: st.History, Self: self, Descriptor: st.Descriptor, Detach: st.Detach, Gone: c.gone, OnHeldBack: c.heldBack,
		OnOverrun: c.overrun, TimeOfDay: time.Now, Log: c.log}
	p.Book.OnHeldBack = c.heldBack
	if c.o.StateDir != "" {
		p.Spool = spool.In(c.o.StateDir, st.Properties.InstallationID, c.o.App)
	}
	return p
}

// Close ends the Client's leases and writes what it counted. What still runs under a lease of the Client loses
// it: call it once Run and Do have returned. It does not close the store.
func (c *Client) Close() {
	c.mu.Lock()
	q, was := c.queue, c.closed
	c.closed = true
	c.mu.Unlock()
	if was {
		return
	}
	if q != nil {
		q.Close()
	}
	if c.o.Keeper == nil {
		c.keeper.Close()
	}
	aside.Flush(c.log)
}

// refuse keeps an error of a registration, which Run says again.
func (c *Client) refuse(err error) error {
	c.wrong = append(c.wrong, err)
	return err
}

// late says why nothing can be registered any more; nil where it can. c.mu is held.
func (c *Client) late(what string) error {
	switch {
	case c.closed:
		return fmt.Errorf("%s: %w", what, ErrClosed)
	case c.begun:
		return fmt.Errorf("%s: Run was called before: register everything first", what)
	}
	return nil
}

// gone proves that the work of a holder of this host is gone (rule L6), so that its lease can be had at once. A
// library kills nothing: where only the work of a dead supervisor lives, the lease is waited for.
func (c *Client) gone(_ context.Context, r lease.Record, _ func() bool) bool {
	return command.WorkGone(r.Key, r.Holder) || command.EarlierBoot(c.self, r.Holder)
}

// heldBack says once for each time that the store grants nothing yet: each lock and role that waits hears of it.
func (c *Client) heldBack(d time.Duration) {
	end := c.keeper.Boot() + d
	if before := time.Duration(c.backTold.Swap(int64(end))); before != 0 && end-before < time.Second {
		return
	}
	if c.place != nil {
		c.place.HeldBack(d)
	}
	c.log.Warn(lease.HoldBackText(d), "event", "held-back", "wait", d.Round(time.Millisecond), "store", c.store.URL)
}

func (c *Client) overrun(l *lease.Lease) {
	c.log.Error("a function still runs although its lease is lost: it ignores its context, and only its token excludes it from now on",
		"event", "overrun", "key", l.Key(), "token", l.Token())
	if c.o.OnOverrun != nil {
		c.o.OnOverrun(l.Key())
	}
}

func (c *Client) stepped(d time.Duration) {
	c.log.Warn("the store's clock stepped", "event", "clock-step", "step", d, "store", c.store.URL)
	if c.place != nil {
		c.place.ClockStepped(d)
	}
}

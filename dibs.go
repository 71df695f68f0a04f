package dibs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
)

// Options configure a Client. The zero value is enough for locks and tasks; Cron needs App.
type Options struct {
	// App names the program's set of scheduled functions; the store and the dibs commands call them "APP/NAME". All
	// processes of a program use the same App, and programs with different functions use different ones. It is a
	// lower-case letter, then up to 62 of a-z, 0-9 and -. It has no default, because renaming a binary must not
	// create another application. Required by Cron and CronTask.
	App string
	// Logger logs what happens: runs that ended at INFO, failures at ERROR. Logging never delays work. Default
	// slog.Default(); slog.New(slog.DiscardHandler) logs nothing.
	Logger *slog.Logger
	// Drain is how long runs and tasks may continue after Run's context has ended; then their contexts end too.
	// Default 12 s, which together with the 10 s that functions then have to return fits into the 30 s that
	// Kubernetes gives.
	Drain time.Duration
	// StateDir is a directory of this host, such as /var/lib/shop. It keeps outcomes that could not be written to
	// the store while it was unavailable; the next process of the program delivers them. It belongs to one program
	// with one store and namespace. Default none: they are kept in memory until the process ends.
	StateDir string
	// Queues are the queues whose tasks Run works. Default "default".
	Queues []string
	// Slots is how many tasks this process runs at the same time, 1 to 10,000. Default 10.
	Slots int
	// OnOverrun is called when a function is still running at the instant at which it must have stopped because its
	// lease is lost: it ignores its context, and from then on only the token protects against two runs at once. A
	// program that writes to something that cannot check tokens should exit here (os.Exit). key is the lock's or the
	// job's; it is empty for tasks, which share one lease. The call delays nothing. The overrun is always logged.
	OnOverrun func(key lease.Key)
	// Observe receives what this process does, for metrics and traces: starts and ends of ticks, tasks and locks, with
	// how long they took, leases that are lost, requests about leases. Each end is told by one process of the fleet.
	// It runs on a goroutine of its own, one call at a time and in order, and delays nothing: up to some thousand
	// events wait for it, more are dropped, and the log says how many. Close waits for it for a second. A panic in it
	// is logged. Of a Keeper that the caller gave, neither requests nor leases are told. Default none.
	Observe func(observe.Event)
	// Keeper keeps the leases of the store, for a program that already has one, or for a test with its own clock.
	// The caller keeps ownership. Default: New creates one and Close ends it.
	Keeper *lease.Keeper
}

// Defaults for the end of a process.
const (
	defaultDrain = queue.DefaultGrace
	stopGrace    = queue.DefaultStopGrace
)

// ErrClosed is returned by calls on a closed Client, and by calls that come too late because Run has begun.
var ErrClosed = errors.New("dibs: the client is closed")

// A Client gives a program its locks (Do), scheduled functions (Cron) and tasks (Handle, Enqueue) in one store.
// Create one per process and store with New. It is safe for concurrent use.
type Client struct {
	o       Options
	store   *store.Store
	backend *backend.Backend
	keeper  *lease.Keeper // the backend's
	log     *slog.Logger
	self    lease.Holder // of locks
	observe observe.Func // delays nothing; nil: nobody observes
	flush   func()       // of the observer

	mu      sync.Mutex // guards what follows
	wrong   []error    // what Cron and Handle refused: Run says it again
	crons   map[string]*scheduler.Job
	mux     queue.Mux
	handles int
	queue   *queue.Client // made when it is first needed
	begun   bool          // Run was called
	closed  bool
}

// New creates a Client for an opened store. The caller still owns the store: close it after the Client. New sends no
// request to the store.
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
	c := &Client{o: o, store: st, log: aside.Logger(cmp.Or(o.Logger, slog.Default())), crons: map[string]*scheduler.Job{}}
	role := ""
	if o.App != "" {
		role = scheduler.ServerCommand(o.App)
	}
	c.observe, c.flush = beside(o.Observe, c.log)
	b, err := backend.New(st, backend.Options{Role: role, Dir: o.StateDir, Namespace: o.App, Keeper: o.Keeper,
		OnOverrun: c.overrun, Observe: c.observe, Log: c.log})
	if err != nil {
		return nil, fmt.Errorf("dibs: %w", err)
	}
	c.backend, c.keeper, c.self = b, b.Keeper, b.Self
	c.self.Command = "" // a lock is not the server's
	return c, nil
}

// Names of apps and jobs follow the manifest's rules, so that every command accepts them.
var names = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)

const nameWant = "a lower-case letter, then up to 62 of a-z, 0-9 and -"

// Close ends the Client's leases and writes its counters. Work that still runs under one of its leases loses the
// lease, so call Close after Run and Do have returned. It does not close the store.
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
	c.backend.Close()
	c.flush()
	aside.Flush(c.log)
}

// refuse keeps the error of a registration; Run returns it again.
func (c *Client) refuse(err error) error {
	c.wrong = append(c.wrong, err)
	return err
}

// late returns an error if nothing can be registered any more, else nil. c.mu is held.
func (c *Client) late(what string) error {
	switch {
	case c.closed:
		return fmt.Errorf("%s: %w", what, ErrClosed)
	case c.begun:
		return fmt.Errorf("%s: Run was called before: register everything first", what)
	}
	return nil
}

func (c *Client) overrun(l *lease.Lease) {
	c.log.Error("a function still runs although its lease is lost: it ignores its context, and only its fencing token now prevents double work",
		"event", "overrun", "key", l.Key(), "token", l.Token())
	if c.o.OnOverrun != nil {
		c.o.OnOverrun(l.Key())
	}
}

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
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
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
	o       Options
	store   *store.Store
	backend *backend.Backend
	keeper  *lease.Keeper // the backend's
	log     *slog.Logger
	self    lease.Holder // of locks

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
	c := &Client{o: o, store: st, log: aside.Logger(cmp.Or(o.Logger, slog.Default())), crons: map[string]*scheduler.Job{}}
	role := ""
	if o.App != "" {
		role = scheduler.ServerOf(o.App)
	}
	b, err := backend.New(st, backend.Options{Role: role, Dir: o.StateDir, Namespace: o.App, Keeper: o.Keeper, OnOverrun: c.overrun, Log: c.log})
	if err != nil {
		return nil, fmt.Errorf("dibs: %w", err)
	}
	c.backend, c.keeper, c.self = b, b.Keeper, b.Self
	c.self.Command = "" // a lock is not the server's
	return c, nil
}

// The names of apps and jobs are those of a manifest, so that every command takes them.
var names = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)

const nameWant = "a lower-case letter, then up to 62 of a-z, 0-9 and -"

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
	c.backend.Close()
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

func (c *Client) overrun(l *lease.Lease) {
	c.log.Error("a function still runs although its lease is lost: it ignores its context, and only its token excludes it from now on",
		"event", "overrun", "key", l.Key(), "token", l.Token())
	if c.o.OnOverrun != nil {
		c.o.OnOverrun(l.Key())
	}
}

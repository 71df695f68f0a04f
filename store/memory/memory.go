package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Options are what a backend can be made with. The zero Options are usable.
type Options struct {
	// Clock is the store's clock. Default time.Now, which in a testing/synctest bubble is the
	// bubble's. Its instants are truncated to microseconds.
	Clock func() time.Time
	// MaxTTL is the longest TTL that is granted (rule L9). Default 15 s.
	MaxTTL time.Duration
	// HoldBack makes a store that grants nothing for its first MaxTTL, like a store whose identity changed (rule L9).
	HoldBack bool
	// URL is how the store calls itself. Default "memory:".
	URL string
}

// A Backend is the data that all its clients share. It is safe for concurrent use.
type Backend struct {
	clock func() time.Time
	url   string
	id    string

	mu        sync.Mutex
	maxTTL    time.Duration
	holdUntil time.Time // nothing is granted before it
	epoch     lease.Epoch
	leases    map[lease.Key]lease.Record
	ticks     map[string]*ledger // by job
	jobs      map[string]tick.Job
	runs      map[string]*run.Record
	runsOf    map[string]runs // by job
	outputs   map[string][]byte
	events    []history.Event // in the order of their instants
	foreign   map[string]bool // ids with which events came
	watchers  map[lease.Key]map[chan struct{}]bool
	queues    *queueState // of tasks
	processes map[lease.Nonce]report
}

// New makes an empty backend.
func New(o Options) *Backend {
	b := &Backend{
		clock: o.Clock, url: o.URL, id: lease.NewNonce().String(), maxTTL: o.MaxTTL,
		leases: map[lease.Key]lease.Record{}, ticks: map[string]*ledger{},
		jobs: map[string]tick.Job{}, runs: map[string]*run.Record{}, runsOf: map[string]runs{}, outputs: map[string][]byte{},
		watchers: map[lease.Key]map[chan struct{}]bool{}, foreign: map[string]bool{},
		processes: map[lease.Nonce]report{},
	}
	b.queues = newQueueState(b)
	if b.clock == nil {
		b.clock = time.Now
	}
	if b.maxTTL == 0 {
		b.maxTTL = lease.DefaultTTL
	}
	if b.url == "" {
		b.url = "memory:"
	}
	b.epoch = lease.Epoch(b.now().UnixMicro())
	if o.HoldBack {
		b.holdUntil = b.now().Add(b.maxTTL)
	}
	return b
}

// Forget loses all but the queues, as a server does that was restarted without its data, and grants nothing for MaxTTL
// (rule L9).
func (b *Backend) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.epoch, b.holdUntil, b.events = max(b.epoch+1, lease.Epoch(now.UnixMicro())), now.Add(b.maxTTL), nil
	clear(b.leases)
	clear(b.ticks)
	clear(b.jobs)
	clear(b.runs)
	clear(b.runsOf)
	clear(b.outputs)
	clear(b.foreign)
	clear(b.processes)
}

// ForgetJob loses the row of a job, as a server does that evicts what it keeps when its memory is full.
func (b *Backend) ForgetJob(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.jobs, name)
}

// now is the store's time, to the microsecond and without Go's monotonic reading. Call it with
// the lock held: the instant of a decision must lie inside it.
func (b *Backend) now() time.Time { return micro(b.clock()) }

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// Store returns a client of b. Any number of them share its data, as processes share a server.
func (b *Backend) Store() *store.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := store.Properties{Reach: store.Process, InstallationID: b.id, MaxTTL: b.maxTTL,
		Weaker: []string{"Everything is lost when the process ends.", "It works within one process only."}}
	b.identify(0, b.now())
	if b.holdUntil.After(b.now()) {
		p.HoldUntil = b.holdUntil
	}
	return &store.Store{Kind: "memory", URL: b.url, Leases: leases{b}, Ticks: ticks{b}, History: told{b},
		Queue: tasks{b.queues}, Tasks: admin{b.queues}, Fleet: processes{b}, Notify: leases{b}, Properties: p, Close: func() error { return nil }}
}

// registry gives two Opens of one namespace clients of the same data.
var registry = struct {
	sync.Mutex
	byNamespace map[string]*Backend
}{byNamespace: map[string]*Backend{}}

// OpenConfig returns a client of this process's store of c.Namespace, and makes it if it is missing. A new one is
// certainly new, so it grants at once, whether or not c.Init says so.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	if c.Session {
		return nil, errors.New("memory store: it has no session locks; remove lock=session from its address")
	}
	registry.Lock()
	defer registry.Unlock()
	b, prepared := registry.byNamespace[c.Namespace], []string(nil)
	if b == nil && c.Read {
		return nil, c.NotPrepared()
	}
	if b == nil {
		b = New(Options{URL: c.String(), MaxTTL: c.Longest()}) // nobody waits: no holder outlives this process's memory
		prepared = append(prepared, fmt.Sprintf("created namespace %s in memory", c.Namespace))
	}
	if c.Expect != "" && c.Expect != b.id {
		return nil, fmt.Errorf("memory store: its installation id is %s, and expect_store asks for %s; correct the address or the pin", b.id, c.Expect)
	}
	if err := c.CheckTTL(max(b.longest(), c.SeenTTL)); err != nil {
		return nil, err
	}
	if c.Read {
		return b.Store(), nil
	}
	registry.byNamespace[c.Namespace] = b
	b.sawTTL(c.SeenTTL)
	if c.Init && b.raise(c.TTL) {
		prepared = append(prepared, fmt.Sprintf("raised max_ttl to %s", c.TTL))
	}
	s := b.Store()
	s.Prepared = prepared
	return s, nil
}

func (b *Backend) longest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.maxTTL
}

// sawTTL holds grants back for a TTL that is longer than b knows. A client has seen it, so the data of then was lost
// (rule L9).
func (b *Backend) sawTTL(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ttl > b.maxTTL {
		b.maxTTL, b.holdUntil = ttl, b.now().Add(ttl)
	}
}

// raise lets longer TTLs be granted; they are never lowered under a live lease.
func (b *Backend) raise(ttl time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	longer := ttl > b.maxTTL
	b.maxTTL = max(b.maxTTL, ttl)
	return longer
}

// alive refuses a call whose context has ended, as a server that does not answer would.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory store: %w: %w", lease.ErrUnavailable, err)
	}
	return nil
}

package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/lease"
)

const (
	// watched is for how long a release is announced after a watcher has said that it listens.
	// NOTIFY takes a lock on the whole server until its transaction is on disk: 16 clients that
	// notified with every update did a quarter of the updates. So nothing is announced that
	// nobody waits for.
	watched = time.Minute
	// refresh is the time between announcements of the same listener: none is refreshed that has
	// more than half of its time left, so a third of it leaves no gap.
	refresh = watched / 3
	// relisten is the pause before a lost connection is made again; waiters poll meanwhile.
	relisten = time.Second
	// idle is how long the connection stays after the last watcher has gone. Without it, a process that waits for one
	// lease after the other would make a connection each time, and the server a process.
	idle = 30 * time.Second
)

// listener is the store's lease.Notifier: one connection of its own, open while anybody watches,
// and a little longer.
type listener struct {
	rows leases
	pool *pgxpool.Pool
	deaf bool            // a pooler is in the way: nobody can be told
	done context.Context // ended by close
	end  context.CancelFunc

	mu       sync.Mutex
	watchers map[string]map[chan struct{}]lease.Key // by topic
	queues   map[int64]map[chan struct{}]bool       // who watches a queue, by its number
	untold   map[int64]bool                         // queues of which watchers elsewhere are to be told; nil: nobody does so
	arming   bool                                   // somebody sees that we are told
	unarmed  []int64                                // what is to be armed after that
	stop     context.CancelFunc                     // of the goroutine that listens; nil: there is none
	unused   *time.Timer                            // stops it; runs while nobody watches
	stopped  sync.WaitGroup
}

func newListener(rows leases, pool *pgxpool.Pool) *listener {
	l := &listener{rows: rows, pool: pool, watchers: map[string]map[chan struct{}]lease.Key{}, queues: map[int64]map[chan struct{}]bool{}}
	l.done, l.end = context.WithCancel(context.Background())
	return l
}

// topic is dibs.topic of the schema.
func topic(ns string, key lease.Key) string {
	h := sha256.Sum256([]byte(ns + "/" + string(key)))
	return hex.EncodeToString(h[:])
}

// Watch is of lease.Notifier. It returns once releases of key are being announced; they are heard
// as soon as the connection is there.
func (l *listener) Watch(ctx context.Context, key lease.Key) (<-chan struct{}, error) {
	if err := l.done.Err(); err != nil {
		return nil, l.rows.db.fail("watch", err)
	}
	// One waiting hint is as good as many.
	c := make(chan struct{}, 1)
	t := topic(l.rows.ns, key)
	l.mu.Lock()
	if l.watchers[t] == nil {
		l.watchers[t] = map[chan struct{}]lease.Key{}
	}
	l.watchers[t][c] = key
	l.attend()
	l.mu.Unlock()
	context.AfterFunc(ctx, func() { l.unwatch(t, c) })
	return c, l.announce(ctx, [][]byte{keyBytes(key)})
}

// attend sees that somebody listens. The caller has the lock.
func (l *listener) attend() {
	if l.unused != nil {
		l.unused.Stop()
	}
	if l.stop == nil {
		var listening context.Context
		listening, l.stop = context.WithCancel(l.done)
		l.stopped.Add(1)
		go l.listen(listening)
	}
}

func (l *listener) unwatch(t string, c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.watchers[t], c); len(l.watchers[t]) == 0 {
		delete(l.watchers, t)
	}
	l.leave()
}

// leave lets go of the connection in a while, if nobody needs it. The caller has the lock.
func (l *listener) leave() {
	if len(l.watchers) == 0 && len(l.queues) == 0 && l.stop != nil {
		l.unused = time.AfterFunc(idle, l.rest)
	}
}

// rest lets go of the connection, unless somebody came to watch while the timer fired.
func (l *listener) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) == 0 && len(l.queues) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// announce has the releases of keys announced for a while.
func (l *listener) announce(ctx context.Context, keys [][]byte) error {
	return l.rows.db.run(ctx, "watch", do(sqlWatch(), l.rows.ns, keys, watched.Microseconds()))
}

// listen hears until ctx ends, over one connection after the other.
func (l *listener) listen(ctx context.Context) {
	defer l.stopped.Done()
	for ctx.Err() == nil {
		c, err := dial(ctx, l.pool)
		if err == nil {
			_, err = c.Exec(ctx, "LISTEN dibs")
		}
		if err == nil {
			l.wake("") // whatever was announced before this is not heard
			l.wakeQueues(nil)
			l.hear(ctx, c)
		}
		if c != nil {
			_ = c.Close(ctx) // nothing is owed to it
		}
		select {
		case <-ctx.Done():
		case <-time.After(relisten):
		}
	}
}

// hear passes announcements on until the connection or ctx ends.
func (l *listener) hear(ctx context.Context, c *pgx.Conn) {
	again := time.Now().Add(refresh)
	for {
		until, cancel := context.WithDeadline(ctx, again)
		n, err := c.WaitForNotification(until)
		cancel()
		switch {
		case err == nil:
			l.heard(n.Payload)
		case ctx.Err() != nil || c.IsClosed():
			return
		default:
			again = time.Now().Add(refresh)
			if l.announce(ctx, l.keys()) != nil {
				again = time.Now().Add(relisten)
			}
		}
	}
}

func (l *listener) keys() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys [][]byte
	for _, watchers := range l.watchers {
		for _, key := range watchers {
			keys = append(keys, keyBytes(key))
			break // they all watch the same
		}
	}
	return keys
}

// wake hints to the watchers of a topic, or with "" to all.
func (l *listener) wake(t string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, watchers := range l.watchers {
		if t != "" && t != of {
			continue
		}
		for c := range watchers {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (l *listener) close() error {
	l.mu.Lock()
	l.end() // under the lock, so that nothing begins after it
	l.mu.Unlock()
	l.stopped.Wait()
	return nil
}

package mysql

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/lazy"
	"github.com/dibs-run/dibs/lease"
)

// names is this process's table of named locks. GET_LOCK lets one connection take a name twice, so the table keeps
// two owners of one process from both asking the server for it. The row decides which of them holds the lease.
type names struct {
	pin *pin
	ns  string

	mu   sync.Mutex
	held map[lease.Key]*named
}

// named is a named lock that the pinned connection holds. It is freed when nobody is left in it.
type named struct {
	// owners may hold the lease under this name. Each leaves when it releases, or when its
	// timer says that it has not renewed for a TTL.
	owners map[lease.Nonce]*stay
	asking int // acquires under way
}

// stay is one owner's; its token is 0 while the answer to its acquire is not known.
type stay struct {
	token lease.Token
	timer *time.Timer
}

func newNames(d *database, maxTTL time.Duration) *names {
	n := &names{ns: string(d.ns), held: map[lease.Key]*named{}}
	n.pin = newPin(d, maxTTL, n.forget)
	return n
}

// plain is a key that is its own named lock, so that programs which already use it interoperate.
var plain = lazy.Regexp(`^([a-z0-9_.-]+:)?[a-z0-9_.-]+$`)

// name is the named lock of k: the key itself in the default namespace, namespace:key in another. It has at most 64
// characters, all lower-case, since MySQL ignores case and MariaDB does not. Any other name is hashed.
func (n *names) name(k lease.Key) string {
	s := n.ns + ":" + string(k)
	if n.ns == "dibs" {
		s = string(k)
	}
	if len(s) <= 64 && plain().MatchString(s) && !strings.Contains(string(k), ":") {
		return s
	}
	return fmt.Sprintf("dibs:%x", sha256.Sum224([]byte(n.ns+"\x00"+string(k))))
}

// taken is the result of take: the names that are ours, and for the others the connection that has the name.
type taken struct {
	ours map[lease.Key]*named
	by   map[lease.Key]int64
}

// take gets the names of ks for an acquire, which ends with untake.
func (n *names) take(ctx context.Context, ks []lease.Key) (taken, error) {
	var t taken // the connection's, until do returns without an error
	ks = slices.Compact(slices.Sorted(slices.Values(ks)))
	err := n.pin.do(ctx, func(q asker) error {
		t = taken{map[lease.Key]*named{}, map[lease.Key]int64{}} // it may be the second attempt
		var ask []lease.Key
		n.mu.Lock()
		for _, k := range ks {
			if e := n.held[k]; e != nil {
				e.asking++
				t.ours[k] = e
			} else if !k.Internal() {
				ask = append(ask, k)
			}
		}
		n.mu.Unlock()
		return n.lock(q, ask, &t)
	}, func(q asker) error { return n.unlock(q, n.untake(t)) })
	if err != nil {
		return taken{}, err
	}
	return t, nil
}

// lock asks the server for names, without waiting: MariaDB has no way to wait for ever.
func (n *names) lock(q asker, ks []lease.Key, t *taken) error {
	if len(ks) == 0 {
		return nil
	}
	got, err := q(n.call("COALESCE(GET_LOCK(?, 0), 0)", ks))
	if err != nil {
		return err
	}
	var refused []lease.Key
	n.mu.Lock()
	for i, k := range ks {
		if got[i] == 1 {
			n.held[k] = &named{owners: map[lease.Nonce]*stay{}, asking: 1}
			t.ours[k] = n.held[k]
		} else {
			refused = append(refused, k)
		}
	}
	n.mu.Unlock()
	if len(refused) == 0 {
		return nil
	}
	by, err := q(n.call("COALESCE(IS_USED_LOCK(?), -1)", refused))
	for i, k := range refused {
		if err == nil {
			t.by[k] = by[i]
		}
	}
	return err
}

// call is a SELECT of f for each of ks. The names need no quoting: they are plain or a hash.
func (n *names) call(f string, ks []lease.Key) string {
	calls := make([]string, len(ks))
	for i, k := range ks {
		calls[i] = strings.Replace(f, "?", "'"+n.name(k)+"'", 1)
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// untake ends an acquire, and returns the keys whose names nobody of this process uses any more.
func (n *names) untake(t taken) (idle []lease.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, e := range t.ours {
		if e == n.held[k] { // else the connection was lost, and the name may have been taken anew
			if e.asking--; e.idle() {
				idle = append(idle, k)
			}
		}
	}
	return idle
}

func (e *named) idle() bool { return e.asking == 0 && len(e.owners) == 0 }

// give notes that ref alone has the row, for at least d.
func (n *names) give(ref lease.Ref, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.held[ref.Key]
	if e == nil {
		return // the connection was lost meanwhile, which the next heartbeat will say
	}
	for owner, s := range e.owners {
		s.timer.Stop()
		delete(e.owners, owner)
	}
	n.stay(e, ref, d)
}

// doubt notes that owner may have the row: the answer was lost.
func (n *names) doubt(k lease.Key, owner lease.Nonce, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.held[k]; e != nil && e.owners[owner] == nil {
		n.stay(e, lease.Ref{Key: k, Owner: owner}, d)
	}
}

// stay keeps ref's owner in e for d. Call it with the lock held.
func (n *names) stay(e *named, ref lease.Ref, d time.Duration) {
	s := &stay{token: ref.Token}
	s.timer = time.AfterFunc(d, func() {
		n.mu.Lock()
		lapsed := e.owners[ref.Owner] == s
		if lapsed {
			delete(e.owners, ref.Owner)
		}
		n.mu.Unlock()
		if lapsed {
			n.free(context.Background(), []lease.Key{ref.Key})
		}
	})
	e.owners[ref.Owner] = s
}

// has says whether ref may hold its key under a name that is still ours.
func (n *names) has(ref lease.Ref) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return ref.Key.Internal() || n.find(ref) != nil
}

// find returns the name that ref is in. Call it with the lock held.
func (n *names) find(ref lease.Ref) *named {
	e := n.held[ref.Key]
	if e == nil {
		return nil
	}
	if s := e.owners[ref.Owner]; s == nil || s.token != 0 && s.token != ref.Token {
		return nil
	}
	return e
}

// drop removes owners, and frees the names that nobody uses any more.
func (n *names) drop(ctx context.Context, refs []lease.Ref) {
	var ks []lease.Key
	n.mu.Lock()
	for _, r := range refs {
		if e := n.find(r); e != nil {
			e.owners[r.Owner].timer.Stop()
			delete(e.owners, r.Owner)
			ks = append(ks, r.Key)
		}
	}
	n.mu.Unlock()
	n.free(ctx, ks)
}

// free gives back names that nobody uses. It cannot fail: if the connection breaks, the names are free as well. If
// ctx ends, it goes on by itself.
func (n *names) free(ctx context.Context, ks []lease.Key) {
	if len(ks) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.pin.do(context.WithoutCancel(ctx), func(q asker) error { return n.unlock(q, ks) }, nil)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (n *names) unlock(q asker, ks []lease.Key) error {
	var idle []lease.Key
	n.mu.Lock()
	for _, k := range ks {
		if e := n.held[k]; e != nil && e.idle() {
			delete(n.held, k)
			idle = append(idle, k)
		}
	}
	n.mu.Unlock()
	if len(idle) == 0 {
		return nil
	}
	_, err := q(n.call("COALESCE(RELEASE_LOCK(?), 0)", idle))
	return err
}

// forget is called when the pinned connection is lost, and with it every name.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, e := range n.held {
		for _, s := range e.owners {
			s.timer.Stop()
		}
		delete(n.held, k)
	}
}

// ping fails only where nothing is known. A lost connection is known: has says so afterwards.
func (n *names) ping(ctx context.Context) error {
	return n.pin.do(ctx, func(q asker) error { _, err := q("SELECT 1"); return err }, nil)
}

func (n *names) close() error { return n.pin.close() }

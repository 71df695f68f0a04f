//go:build linux

package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// leases keeps one file per key, whose flock is the hold. Its table has the holds whose open file this process has.
// All others, also those that it handed on (detach), it knows from the files alone.
type leases struct {
	dir     *dir
	journal *journal
	turn    turn // to write to the database

	mu    sync.Mutex // over the table and every write to a lock file; held for microseconds
	holds map[lease.Key]*hold

	opened     opened
	unreadable *unreadable
}

// tables has one table per namespace, whichever Open of this process came first. A hold belongs to the process,
// whichever of its stores it asks, and Close releases nothing.
var tables struct {
	sync.Mutex
	byPath map[string]*leases
}

func leasesOf(d *dir) *leases {
	tables.Lock()
	defer tables.Unlock()
	l := tables.byPath[d.path]
	if l == nil {
		l = &leases{dir: d, journal: newJournal(d), turn: make(turn, 1), holds: map[lease.Key]*hold{}}
		l.unreadable = l.journal.unreadable
		if tables.byPath == nil {
			tables.byPath = map[string]*leases{}
		}
		tables.byPath[d.path] = l
	}
	return l
}

// lockFile is the name of a key's file: keys may be longer than file names, and contain anything.
func lockFile(k lease.Key) string {
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:])
}

// lockPath is the path of a key's file, for messages.
func (l *leases) lockPath(k lease.Key) string {
	return filepath.Join(l.dir.path, leasesName, lockFile(k))
}

// undecided is how long an acquire waits for a lock whose record is nobody's: another acquire may be deciding, or a
// process may be between its release and its exit.
const undecided = 25 * time.Millisecond

// Acquire fulfils lease.Store.
func (l *leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = bounds.Of(reqs)
	return each(ctx, reqs, func(q *lease.AcquireRequest) (a lease.Answer, err error) {
		_, err = patiently(ctx, undecided, func() (settled bool, err error) {
			err = unkept(ctx, func() error {
				a, settled, err = l.acquire(ctx, q)
				return err
			})
			return settled, err
		})
		return a, fail("acquire", l.lockPath(q.Key), err)
	})
}

// each answers a batch item by item: there is no round trip to save.
func each[Q any](ctx context.Context, reqs []Q, do func(*Q) (lease.Answer, error)) (lease.Reply, error) {
	r := lease.Reply{Answers: make([]lease.Answer, len(reqs))}
	for i := range reqs {
		if err := ctx.Err(); err != nil {
			return lease.Reply{}, fail("use", "the directory", err)
		}
		var err error
		if r.Answers[i], err = do(&reqs[i]); err != nil {
			return lease.Reply{}, err
		}
	}
	r.Now = instantNow().time()
	return r, nil
}

// acquire tries once. An answer that is not settled may be another a moment later.
func (l *leases) acquire(ctx context.Context, q *lease.AcquireRequest) (_ lease.Answer, settled bool, err error) {
	m, err := l.dir.meta.current()
	if err != nil {
		return lease.Answer{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if instantNow().past(q.NotAfter) {
		return lease.Answer{Status: lease.Late}, true, nil
	}
	at, err := l.seat(q.Key)
	if err != nil {
		return lease.Answer{}, false, fail("open", l.lockPath(q.Key), err)
	}
	if a, ok, err := l.ours(q, at); ok || err != nil {
		return a, ok, fail("acquire", at.String(), err)
	}
	if a, refused := l.refuse(q, m, instantNow()); refused {
		return a, true, nil
	}
	h := &hold{at: at}
	if h.fd, h.lock, err = at.openLock(); errors.Is(err, errMoved) {
		return lease.Answer{Status: lease.Held}, false, nil
	}
	if err != nil {
		return lease.Answer{}, false, fail("open", at.String(), err)
	}
	a, settled, err := l.grant(ctx, q, m, h)
	if !settled || err != nil || a.Status != lease.OK || l.holds[q.Key] == nil {
		// The flock and the byte locks of these descriptions are freed at once, even if a child that is just being
		// forked shares them for a moment.
		h.unlock()
		h.close()
	}
	return a, settled, fail("acquire", at.String(), err)
}

// heldBack says whether grants are held back (rule L9).
func (l *leases) heldBack() (bool, error) {
	m, err := l.dir.meta.current()
	return !m.holdUntil(l.dir.boot, instantNow()).IsZero(), err
}

// refuse answers requests that no look at the file can change.
func (l *leases) refuse(q *lease.AcquireRequest, m nsMeta, now instant) (lease.Answer, bool) {
	switch until := m.holdUntil(l.dir.boot, now); {
	case now.past(q.NotAfter):
		return lease.Answer{Status: lease.Late}, true
	case q.TTL > m.maxTTL():
		return lease.Answer{Status: lease.TooLong, Until: now.time().Add(m.maxTTL())}, true
	case !until.IsZero():
		return lease.Answer{Status: lease.HeldBack, Until: until}, true
	}
	return lease.Answer{}, false
}

// ours answers for a key in the table, unless its file was replaced (break --now).
func (l *leases) ours(q *lease.AcquireRequest, at seat) (lease.Answer, bool, error) {
	now := instantNow()
	h := l.live(q.Key, now)
	if h == nil {
		return lease.Answer{}, false, nil
	}
	same, err := at.same(h.fd)
	if err != nil {
		return lease.Answer{}, false, err
	}
	a := lease.Answer{Status: lease.Held, Record: l.view(&h.rec, true, now)}
	switch {
	case !same:
	case h.rec.Owner == q.Holder.ID:
		a.Status = lease.OK
		return a, true, nil
	case q.Reclaim != h.rec.ref() || h.handed, h.rec.busy(l.dir.boot, now) && !q.Unguarded:
		return a, true, nil
	}
	// The lock excludes nobody any more, or nobody but this process has it and its work is
	// said to be gone.
	l.letGo(h)
	return lease.Answer{}, false, nil
}

// grant decides about the file of one key. The caller lets go of h unless it became a hold.
func (l *leases) grant(ctx context.Context, q *lease.AcquireRequest, m nsMeta, h *hold) (lease.Answer, bool, error) {
	fd := h.fd
	if ok, err := tryLock(h.lock, fd); err != nil {
		return lease.Answer{}, false, err
	} else if !ok {
		return l.contended(q, fd)
	}
	// A break --now may have put another file in the place of the one opened.
	if same, err := h.at.same(fd); err != nil || !same {
		return lease.Answer{Status: lease.Held}, false, err
	}
	if ok, err := tryByte(fd, unix.F_WRLCK, writeByte); err != nil || !ok {
		return lease.Answer{Status: lease.Held}, false, err
	}
	old, err := readRecord(fd, h.at.name)
	if err != nil {
		return lease.Answer{}, false, err
	}
	now := instantNow()
	if a, refused := l.refuse(q, m, now); refused {
		return a, true, nil
	}
	// A free lock says that its supervisor is dead. It says nothing of a request that works elsewhere (rule L8).
	if old.busy(l.dir.boot, now) && !q.Unguarded {
		return lease.Answer{Status: lease.Held, Record: l.view(&old, false, now)}, true, nil
	}
	// Nor does it say anything of work that does not share the lock: that this work is gone must be proven, as in
	// every other store (rule L6).
	if old.Holder.Apart && !old.released() && !old.lapsed(l.dir.boot, now) && q.Reclaim != old.ref() {
		return lease.Answer{Status: lease.Held, Record: l.view(&old, false, now)}, true, nil
	}
	if err := l.purge(&old, now); err != nil {
		return lease.Answer{}, false, err
	}
	rec := l.newRecord(q, old.Token, now)
	m.origin.put(h.lock)
	if ok, err := tryByte(h.lock, unix.F_RDLCK, heldByte); err != nil || !ok {
		return lease.Answer{Status: lease.Held}, false, err
	}
	if err := writeRecord(fd, &rec); err != nil {
		return lease.Answer{}, false, err
	}
	unlockByte(fd, writeByte)
	if same, err := l.dropRequests(ctx, h, rec.ref()); err != nil || !same {
		rec.release() // else it would look like a hold: of work apart, until it lapses
		_ = writeRecord(fd, &rec)
		return lease.Answer{Status: lease.Held}, false, err
	}
	l.keep(h, rec)
	return lease.Answer{Status: lease.OK, Record: l.view(&rec, true, now)}, true, nil
}

func (l *leases) newRecord(q *lease.AcquireRequest, last lease.Token, now instant) record {
	ttl := q.TTL.Microseconds()
	return record{
		Key: q.Key, Owner: q.Holder.ID, Token: max(last+1, lease.Token(now.wall)), Holder: q.Holder,
		Boot: l.dir.boot, Line: now.wall - now.boot, TTL: ttl,
		Acquired: now.boot, Renewed: now.boot, Expires: now.boot + ttl,
	}
}

// contended answers for a lock that another description has. The answer is settled only if the record says which hold
// it is.
func (l *leases) contended(q *lease.AcquireRequest, fd int) (lease.Answer, bool, error) {
	rec, held, err := l.look(fd, lockFile(q.Key))
	if err != nil {
		return lease.Answer{}, false, err
	}
	now := instantNow()
	live := held && !rec.released() && !rec.lapsed(l.dir.boot, now)
	a := lease.Answer{Status: lease.Held, Record: l.view(&rec, true, now)}
	if live && rec.Owner == q.Holder.ID {
		a.Status = lease.OK
	}
	a.Record.Key = q.Key // also where the file says nothing yet
	return a, live, nil
}

func (l *leases) view(r *record, held bool, now instant) lease.Record {
	return r.view(l.dir.boot, held, now)
}

// Trim fulfils lease.Store: holds expire by the boot clock, which does not step.
func (l *leases) Trim(context.Context, []lease.Key) error { return nil }

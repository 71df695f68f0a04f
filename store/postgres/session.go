package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// LockID is the advisory lock that stands for a key under ?lock=session: the first 8 bytes of the
// SHA-256 of namespace, "/" and key, as a big-endian signed integer. Another program excludes
// itself with dibs by taking the same one, in SQL:
//
//	SELECT pg_advisory_lock(('x' || left(encode(sha256('dibs/invoices'), 'hex'), 16))::bit(64)::bigint)
func LockID(namespace string, key lease.Key) int64 {
	h := sha256.Sum256([]byte(namespace + "/" + string(key)))
	return int64(binary.BigEndian.Uint64(h[:8]))
}

// session is the lease.Store of ?lock=session (rule L11): a key is granted only to a session that holds its named
// lock, and only if its row is free as well. Operations that need no lock go over the pool.
type session struct {
	leases        // over the pool
	own    leases // over the connection that holds the locks
	conn   *pinned
	// acquiring lets one Acquire decide at a time which locks it took and which it found.
	acquiring chan struct{}

	mu sync.Mutex
	// held are the locks that the session has. Each is taken once: the server would grant a lock again to a session
	// that has it.
	held map[lease.Key]*hold
}

// hold is a named lock that the session has. It is given up when its row must have lapsed, whatever became of the
// caller that asked for it.
type hold struct {
	owner lease.Nonce
	// until is when lapse is due: it may have fired just before it was set anew.
	until time.Time
	lapse *time.Timer
	// asked: an Acquire asks for its row just now, and decides what becomes of the lock even if
	// the earlier row has lapsed meanwhile.
	asked, lapsed bool
}

// keep sets when a hold lapses. Call it with mu held.
func (h *hold) keep(d time.Duration) {
	h.until, h.lapsed = time.Now().Add(d), false
	h.lapse.Reset(d)
}

// A named lock is taken before its row and freed after it. So a lock that is taken while its row is free may just be
// being freed: an acquire looks again, this often with this pause, before it answers that another program has it.
const (
	looks = 12
	pause = 20 * time.Millisecond
)

func newSession(rows leases, pool *pgxpool.Pool, maxTTL time.Duration) *session {
	s := &session{leases: rows, own: rows, acquiring: make(chan struct{}, 1), held: map[lease.Key]*hold{}}
	s.conn = newPinned(pool, maxTTL, s.lost)
	s.own.db = &db{send: s.conn.send, address: rows.db.address}
	return s
}

// connect makes the pinned connection.
func (s *session) connect(ctx context.Context) error {
	err := s.conn.connect(ctx)
	switch {
	case errors.Is(err, errPooler):
		return fmt.Errorf("postgres store %s: %w", s.db.address, err)
	case err != nil:
		return s.db.fail("connect for session locks", err)
	}
	return nil
}

// close gives up the connection, and with it all locks.
func (s *session) close() error {
	defer s.lost()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.conn.drop(ctx)
}

// lost forgets every lock: the server freed them with the session.
func (s *session) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range s.held {
		h.lapse.Stop()
		delete(s.held, key)
	}
}

// Renew renews over the session that holds the locks. A hold whose lock was lost with its session is refused, since
// another session may have the lock by now.
func (s *session) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	var ours []lease.RenewRequest
	for _, r := range reqs {
		if s.has(r.Ref) {
			ours = append(ours, r)
		}
	}
	answers := map[lease.Key]lease.Answer{}
	var reply lease.Reply
	if len(ours) > 0 {
		r, err := s.own.Renew(ctx, ours)
		if err != nil && !errors.Is(err, errSessionLost) {
			return r, err
		}
		reply.Now = r.Now
		for i, a := range r.Answers {
			if s.renewed(ours[i], a, r.Now) {
				answers[ours[i].Key] = a
			}
		}
	}
	var gone []lease.Key
	for _, r := range reqs {
		if _, answered := answers[r.Key]; !answered {
			gone = append(gone, r.Key)
		}
	}
	if len(gone) > 0 {
		r, err := s.Read(ctx, gone)
		if err != nil {
			return r, err
		}
		reply.Now = r.Now
		for i, a := range r.Answers {
			answers[gone[i]] = lease.Answer{Status: lease.Gone, Record: a.Record}
		}
	}
	reply.Answers = column(reqs, func(r lease.RenewRequest) lease.Answer { return answers[r.Key] })
	return reply, nil
}

func (s *session) has(ref lease.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[ref.Key]
	return h != nil && h.owner == ref.Owner
}

// renewed notes a renewal, and says whether the session still has its lock: it may be a new session.
func (s *session) renewed(req lease.RenewRequest, a lease.Answer, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[req.Key]
	if h == nil || h.owner != req.Owner {
		return false
	}
	if a.Status == lease.OK {
		h.keep(a.Record.Expires.Sub(now))
	}
	return true
}

// Release frees the rows, and then the named locks.
func (s *session) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	r, err := s.leases.Release(ctx, refs)
	if err == nil {
		s.released(ctx, refs)
	}
	return r, err
}

// released frees the locks of holds that ended.
func (s *session) released(ctx context.Context, refs []lease.Ref) {
	var keys []lease.Key
	s.mu.Lock()
	for _, ref := range refs {
		if h := s.held[ref.Key]; h != nil && h.owner == ref.Owner {
			h.lapse.Stop()
			delete(s.held, ref.Key)
			keys = append(keys, ref.Key)
		}
	}
	s.mu.Unlock()
	s.giveBack(ctx, keys)
}

// sessionTicks frees the named lock of a lease when it closes the lease's run.
type sessionTicks struct {
	tick.Store
	session *session
}

func (k sessionTicks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	a, err := k.Store.Close(ctx, reqs)
	if err == nil {
		k.session.released(ctx, column(reqs, func(r tick.CloseRequest) lease.Ref { return r.Release }))
	}
	return a, err
}

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
)

// lock splits the requests into those whose named lock the session has or could take now, and the rest.
func (s *session) lock(ctx context.Context, reqs []lease.AcquireRequest) (got, rest []lease.AcquireRequest, err error) {
	if _, missing := s.part(reqs); len(missing) > 0 {
		if err := s.own.db.run(ctx, "take session locks", s.try(missing)); err != nil {
			s.unask(reqs)
			return nil, nil, err
		}
	}
	got, rest = s.part(reqs)
	return got, rest, nil
}

// part splits them by what the session has, and marks those as asked for.
func (s *session) part(reqs []lease.AcquireRequest) (got, missing []lease.AcquireRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reqs {
		if h := s.held[r.Key]; h != nil {
			h.asked = true
			got = append(got, r)
		} else {
			missing = append(missing, r)
		}
	}
	return got, missing
}

// unask ends a call that got no further. A lock whose row has lapsed meanwhile is freed.
func (s *session) unask(reqs []lease.AcquireRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reqs {
		if h := s.held[r.Key]; h != nil && h.asked {
			if h.asked = false; h.lapsed {
				h.keep(0)
			}
		}
	}
}

// try takes locks and notes each that was had, even if its caller no longer waits for it.
func (s *session) try(reqs []lease.AcquireRequest) step {
	ids := column(reqs, func(r lease.AcquireRequest) int64 { return LockID(s.ns, r.Key) })
	i := 0
	return do(sqlSession()[0], ids).each(func(rows pgx.Rows) error {
		var had bool
		err := rows.Scan(&had)
		if had {
			s.note(reqs[i])
		}
		i++
		return err
	})
}

// note puts a lock that was just taken into the table. If a concurrent call took the same one too, one is given back.
func (s *session) note(r lease.AcquireRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[r.Key] != nil {
		go s.unlock([]lease.Key{r.Key})
		return
	}
	h := &hold{owner: r.Holder.ID, until: time.Now().Add(r.TTL)}
	h.lapse = time.AfterFunc(r.TTL, func() { s.forget(r.Key, h) })
	s.held[r.Key] = h
}

// unknown keeps locks for as long as rows could live that were perhaps granted: a read-back may find one, and renew
// it.
func (s *session) unknown(reqs []lease.AcquireRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reqs {
		if h := s.held[r.Key]; h != nil {
			h.asked = false
			h.keep(r.TTL)
		}
	}
}

// settle gives the granted keys to their owners and frees the locks of those that were refused. A
// row that was granted while its lock got lost with the session is released again.
func (s *session) settle(ctx context.Context, asked []lease.AcquireRequest, now time.Time, answers map[lease.Key]lease.Answer) error {
	var refused []lease.Key
	var bare []lease.Ref
	s.mu.Lock()
	for _, r := range asked {
		h, a := s.held[r.Key], answers[r.Key]
		switch {
		case h == nil && a.Status == lease.OK:
			bare = append(bare, a.Record.Ref())
		case h == nil:
		case a.Status == lease.OK:
			h.owner, h.asked = r.Holder.ID, false
			h.keep(a.Record.Expires.Sub(now))
		case h.lapsed || h.owner == r.Holder.ID: // taken for this request alone
			h.lapse.Stop()
			delete(s.held, r.Key)
			refused = append(refused, r.Key)
		default:
			h.asked = false
		}
	}
	s.mu.Unlock()
	s.giveBack(ctx, refused)
	if len(bare) == 0 {
		return nil
	}
	r, err := s.leases.Release(ctx, bare)
	for i, a := range r.Answers {
		answers[bare[i].Key] = lease.Answer{Status: lease.Held, Record: a.Record}
	}
	return err
}

// forget frees a lock whose row must have lapsed.
func (s *session) forget(key lease.Key, h *hold) {
	s.mu.Lock()
	h.lapsed = !time.Now().Before(h.until)
	ours := h.lapsed && s.held[key] == h && !h.asked
	if ours {
		delete(s.held, key)
	}
	s.mu.Unlock()
	if ours {
		s.unlock([]lease.Key{key})
	}
}

// giveBack frees locks and waits for it, for as long as the caller does.
func (s *session) giveBack(ctx context.Context, keys []lease.Key) {
	if len(keys) == 0 {
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); s.unlock(keys) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// unlock frees locks that are no longer in the table. The server counts how often a session has a
// lock, so it does not matter if the key is locked again before this arrives. A lock that cannot
// be freed would stay for ever, so then the session ends.
func (s *session) unlock(keys []lease.Key) {
	ids := column(keys, func(k lease.Key) int64 { return LockID(s.ns, k) })
	err := s.own.db.run(context.Background(), "free session locks", do(sqlSession()[1], ids))
	if err != nil && !errors.Is(err, errSessionLost) {
		_ = s.conn.drop(context.Background()) // closed even where it says that it was not in order
	}
}

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
)

// Acquire takes the named locks first, and asks for the rows of the keys whose locks it got over the same session. If
// that is lost in between, no row can be granted.
func (s *session) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	select {
	case s.acquiring <- struct{}{}:
		defer func() { <-s.acquiring }()
	case <-ctx.Done():
		return lease.Reply{}, s.db.fail("acquire", ctx.Err())
	}
	if err := s.connect(ctx); err != nil {
		return lease.Reply{}, err
	}
	answers := map[lease.Key]lease.Answer{}
	var reply lease.Reply
	for look, asked := 1, reqs; look == 1 || len(asked) > 0; look++ {
		got, rest, err := s.lock(ctx, asked)
		if err == nil {
			reply, err = s.ask(ctx, got, answers)
		}
		if err == nil {
			asked, err = s.refuse(ctx, rest, answers, look == looks)
		}
		if err != nil {
			return reply, err // what was locked lapses, unless a read-back finds a grant and renews it
		}
		if len(asked) > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return reply, s.db.fail("acquire", ctx.Err())
			}
		}
	}
	reply.Answers = column(reqs, func(r lease.AcquireRequest) lease.Answer { return answers[r.Key] })
	return reply, nil
}

// ask asks for the rows of keys whose locks the session has.
func (s *session) ask(ctx context.Context, reqs []lease.AcquireRequest, answers map[lease.Key]lease.Answer) (lease.Reply, error) {
	r, err := s.own.Acquire(ctx, reqs)
	if err != nil {
		s.unknown(reqs)
		return r, err
	}
	for i, a := range r.Answers {
		answers[reqs[i].Key] = a
	}
	return r, s.settle(ctx, reqs, r.Now, answers)
}

// refuse answers the requests whose named lock another session has. It returns those whose row is free or to be
// reclaimed: they are worth another look, unless this is the last.
func (s *session) refuse(ctx context.Context, reqs []lease.AcquireRequest, answers map[lease.Key]lease.Answer, last bool) (again []lease.AcquireRequest, err error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	r, err := s.Read(ctx, column(reqs, func(r lease.AcquireRequest) lease.Key { return r.Key }))
	if err != nil {
		return nil, err
	}
	for i, req := range reqs {
		a := lease.Answer{Status: lease.Held, Record: r.Answers[i].Record}
		switch {
		case late(r.Now, req.NotAfter):
			a.Status = lease.Late
		case a.Record.Live(r.Now) && a.Record.Owner == req.Holder.ID:
			a.Status = lease.OK // the answer to its first request was lost
		case a.Record.Live(r.Now) && (last || a.Record.Ref() != req.Reclaim):
		case !last: // the session of a dead process ends a moment after it
			again = append(again, req)
			continue
		default:
			if a.Record, err = s.stranger(ctx, req.Key, r.Now); err != nil {
				return nil, err
			}
		}
		answers[req.Key] = a
	}
	return again, nil
}

// stranger describes the session that has a named lock without a live row: another program, or a process of ours that
// has not noticed yet that its row has lapsed. It is alive, or its lock would be free.
func (s *session) stranger(ctx context.Context, key lease.Key, now time.Time) (lease.Record, error) {
	r := lease.Record{Key: key, Acquired: now, Renewed: now, Expires: now.Add(time.Second), Holder: lease.Holder{Command: "the session lock alone"}}
	err := s.db.run(ctx, "look for the holder of a session lock", do(sqlSession()[2], LockID(s.ns, key)).each(func(rows pgx.Rows) error {
		var pid int64
		var name string
		err := rows.Scan(&pid, &r.Holder.Host, &name)
		r.Holder.PID = int(pid)
		r.Holder.Command = "the session lock alone, in a session of " + name
		return err
	}))
	return r, err
}

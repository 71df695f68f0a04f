package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// session is lease.Store for ?lock=session (rule L11). A grant needs the named lock of the key, held on this
// process's pinned connection, and the lease row, which decides as ever. dibs's own keys have no named lock: no other
// program could know of them.
type session struct {
	leases
	names *names
}

// sessionTicks frees the named lock of each lease that Close releases.
type sessionTicks struct {
	tick.Store
	names *names
}

// withSession puts the named locks before s.
func withSession(s *store.Store, d *database, maxTTL time.Duration) {
	n := newNames(d, maxTTL)
	s.Leases, s.Ticks = session{leases{d}, n}, sessionTicks{s.Ticks, n}
	s.Close = n.close
	s.Properties.Session = true
	s.Properties.Weaker = append(s.Properties.Weaker,
		"A lost connection ends every lease of its process at the next heartbeat, although the lease rows are intact.",
		"A named lock exists on one server only: not on the other nodes of Galera or Group Replication, nor on a replica.",
		"All databases of a server share its named locks: equal keys exclude each other across them.")
}

func (s session) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	return batch(reqs, func(reqs []lease.AcquireRequest) (lease.Reply, error) { return s.acquireNamed(ctx, reqs) })
}

func (s session) acquireNamed(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	var ks []lease.Key
	for _, r := range reqs {
		ks = append(ks, r.Key)
	}
	taken, err := s.names.take(ctx, ks)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("acquire: %w", err)
	}
	var ours []lease.AcquireRequest
	for _, r := range reqs {
		if taken.by[r.Key] == 0 {
			ours = append(ours, r)
		}
	}
	sent := time.Now()
	reply, err := s.leases.Acquire(ctx, ours)
	if err != nil {
		// Any of them may have been granted. Their names stay until that is known.
		for _, r := range ours {
			s.names.doubt(r.Key, r.Holder.ID, expiry(sent, r.TTL))
		}
		s.names.untake(taken)
		return lease.Reply{}, err
	}
	for i, r := range ours {
		if reply.Answers[i].Status == lease.OK {
			s.names.give(reply.Answers[i].Record.Ref(), expiry(sent, r.TTL))
		}
	}
	s.names.free(ctx, s.names.untake(taken))
	return s.refused(ctx, reqs, taken, reply)
}

// expiry is how long a named lock outlasts a heartbeat sent at sent: as long as the hold is
// certain, and by then its work has been stopped (rule L3).
func expiry(sent time.Time, ttl time.Duration) time.Duration {
	return time.Until(sent.Add(lease.MarginFor(ttl).Safe()))
}

// refused puts the answers of keys whose named lock another connection has between the others.
func (s session) refused(ctx context.Context, reqs []lease.AcquireRequest, t taken, granted lease.Reply) (lease.Reply, error) {
	if len(t.by) == 0 {
		return granted, nil
	}
	var others []lease.Key
	for _, r := range reqs {
		if t.by[r.Key] != 0 {
			others = append(others, r.Key)
		}
	}
	read, err := s.leases.Read(ctx, others)
	if err != nil {
		return lease.Reply{}, err
	}
	reply := lease.Reply{Now: granted.Now, Epoch: granted.Epoch}
	if len(granted.Answers) == 0 { // nobody was asked for it
		var m meta
		if err := s.leases.run(ctx, new(packet).add("read-meta", s.leases.ns), m.read); err != nil {
			return lease.Reply{}, fmt.Errorf("acquire: %w", err)
		}
		reply.Epoch = m.epoch
	}
	if reply.Now.IsZero() {
		reply.Now = read.Now
	}
	for _, r := range reqs {
		conn := t.by[r.Key]
		if conn == 0 {
			reply.Answers, granted.Answers = append(reply.Answers, granted.Answers[0]), granted.Answers[1:]
			continue
		}
		a := lease.Answer{Status: lease.Held, Record: read.Answers[0].Record}
		read.Answers = read.Answers[1:]
		switch {
		case late(read.Now, r.NotAfter):
			a.Status = lease.Late
		case !a.Record.Live(read.Now):
			a.Record = foreign(r.Key, s.names.name(r.Key), conn, read.Now)
		case a.Record.Owner == r.Holder.ID:
			a.Status = lease.OK // as for any repeated request; without the name, Renew says Gone
		}
		reply.Answers = append(reply.Answers, a)
	}
	return reply, nil
}

// foreign describes the holder of a named lock that has no live lease: another program, or a process that is about to
// let go.
func foreign(k lease.Key, name string, conn int64, now time.Time) lease.Record {
	return lease.Record{Key: k, Acquired: now, Expires: now,
		Holder: lease.Holder{Host: fmt.Sprintf("connection %d of the MySQL server", conn), Command: "GET_LOCK('" + name + "')"}}
}

// Renew first asks whether the pinned connection lives: with it the named locks do.
func (s session) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	if err := s.names.ping(ctx); err != nil {
		return lease.Reply{}, fmt.Errorf("renew: %w", err)
	}
	var ours []lease.RenewRequest
	var gone []lease.Key
	for _, r := range reqs {
		if s.names.has(r.Ref) {
			ours = append(ours, r)
		} else {
			gone = append(gone, r.Key)
		}
	}
	sent := time.Now()
	reply, err := s.leases.Renew(ctx, ours)
	if err != nil {
		return lease.Reply{}, err
	}
	for i, r := range ours {
		if reply.Answers[i].Status == lease.OK {
			s.names.give(r.Ref, expiry(sent, r.TTL))
		}
	}
	if len(gone) == 0 {
		return reply, nil
	}
	return s.withGone(ctx, reqs, ours, reply, gone)
}

// withGone puts Gone between the answers for holds whose named lock is lost.
func (s session) withGone(ctx context.Context, reqs, ours []lease.RenewRequest, renewed lease.Reply, gone []lease.Key) (lease.Reply, error) {
	read, err := s.leases.Read(ctx, gone)
	if err != nil {
		return lease.Reply{}, err
	}
	reply := lease.Reply{Now: renewed.Now}
	if len(ours) == 0 {
		reply.Now = read.Now
	}
	for _, r := range reqs {
		if len(ours) > 0 && ours[0].Ref == r.Ref {
			reply.Answers = append(reply.Answers, renewed.Answers[0])
			ours, renewed.Answers = ours[1:], renewed.Answers[1:]
			continue
		}
		reply.Answers = append(reply.Answers, lease.Answer{Status: lease.Gone, Record: read.Answers[0].Record})
		read.Answers = read.Answers[1:]
	}
	return reply, nil
}

// Release frees the row first: the next one to get the name finds the row free.
func (s session) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	reply, err := s.leases.Release(ctx, refs)
	s.names.drop(ctx, refs)
	return reply, err
}

func (s sessionTicks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	answers, err := s.Store.Close(ctx, reqs)
	if err != nil {
		return nil, err // it will be tried again, and the lease is renewed meanwhile (rule T9)
	}
	var refs []lease.Ref
	for _, r := range reqs {
		if (r.Release.Owner != lease.Nonce{}) {
			refs = append(refs, r.Release)
		}
	}
	s.names.drop(ctx, refs)
	return answers, nil
}

// errClosed is what the pinned connection answers after Close.
var errClosed = errors.New("the store is closed")

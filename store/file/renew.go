//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/lease"
)

// Renew fulfils lease.Store.
func (l *leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return each(ctx, reqs, func(q *lease.RenewRequest) (lease.Answer, error) {
		if instantNow().past(q.NotAfter) {
			r, _, err := l.read(q.Key, instantNow())
			return lease.Answer{Status: lease.Late, Record: r}, err
		}
		asked, err := l.requestsTo(q.Ref)
		if err != nil {
			return lease.Answer{}, err
		}
		a, err := l.edit(ctx, q.Ref, func(r *record, held bool, now instant) (lease.Status, error) {
			switch {
			case now.past(q.NotAfter):
				return lease.Late, nil
			case !held || r.released() || r.lapsed(l.dir.boot, now) || asked.Broken != nil:
				return lease.Gone, nil
			}
			r.renew(q, l.dir.boot, now)
			return lease.OK, nil
		})
		asked.addTo(&a.Record)
		return a, err
	})
}

func (r *record) renew(q *lease.RenewRequest, boot string, now instant) {
	r.Line = r.line(boot, now)
	r.TTL = q.TTL.Microseconds()
	r.Renewed, r.Expires = now.boot, now.boot+r.TTL
	if !q.BusyUntil.IsZero() {
		r.Busy = max(r.Busy, q.BusyUntil.UnixMicro()-r.Line) // an older heartbeat may arrive after a newer one
	}
}

// Release fulfils lease.Store. Of a hold that was handed on only the record is freed; the lock goes when the last
// process that inherited it does.
func (l *leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return each(ctx, refs, func(ref *lease.Ref) (lease.Answer, error) {
		return l.edit(ctx, *ref, func(r *record, _ bool, _ instant) (lease.Status, error) {
			if r.released() {
				return lease.Gone, nil
			}
			r.release()
			return lease.OK, nil
		})
	})
}

// release keeps the owner, the token and the run: a run that is not closed by then has crashed,
// unless it still says otherwise.
func (r *record) release() { r.Expires, r.Busy = 0, 0 }

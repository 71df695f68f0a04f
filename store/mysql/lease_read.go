package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/lease"
)

func (l leases) Read(ctx context.Context, ks []lease.Key) (lease.Reply, error) {
	if len(ks) == 0 {
		var reply lease.Reply
		err := l.run(ctx, new(packet).add("tell-time", with("began")), readInstant(&reply.Now))
		return reply, err
	}
	return batch(ks, func(ks []lease.Key) (lease.Reply, error) { return l.read(ctx, ks) })
}

func (l leases) read(ctx context.Context, ks []lease.Key) (reply lease.Reply, err error) {
	found := records{}
	wanted := keys(ks, func(k lease.Key) lease.Key { return k })
	var us int64
	if err = l.run(ctx, new(packet).add("told", with("began"), l.ns, wanted), found.beside(&us)); err != nil {
		return lease.Reply{}, fmt.Errorf("read: %w", err)
	}
	reply.Now = instant(us)
	for _, k := range ks {
		a := lease.Answer{Status: lease.Gone}
		if rec, there := found[k]; there {
			a = lease.Answer{Status: lease.OK, Record: rec}
		}
		reply.Answers = append(reply.Answers, a)
	}
	return reply, nil
}

func (l leases) List(ctx context.Context, prefix string, all bool) (reply lease.Reply, err error) {
	b, now := []byte(prefix), with("began")
	p := new(packet).add("list", now, l.ns, b, len(b), b, flag(all), now)
	err = l.run(ctx, p, func(r *sql.Rows) error {
		var us int64
		rec, there, err := scanRecord(r, &us)
		if there {
			reply.Answers = append(reply.Answers, lease.Answer{Status: lease.OK, Record: rec})
		} else {
			reply.Now = instant(us)
		}
		return err
	})
	if err != nil {
		return lease.Reply{}, fmt.Errorf("list: %w", err)
	}
	// They come in this order, but no server promises that of a UNION.
	slices.SortFunc(reply.Answers, func(x, y lease.Answer) int { return cmp.Compare(x.Record.Key, y.Record.Key) })
	return reply, nil
}

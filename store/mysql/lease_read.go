package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-run/dibs/lease"
)

func (l leases) Read(ctx context.Context, ks []lease.Key) (lease.Reply, error) {
	if len(ks) == 0 {
		var reply lease.Reply
		err := l.run(ctx, new(packet).add("clock").add("now"), readInstant(&reply.Now))
		return reply, err
	}
	return batch(ks, func(ks []lease.Key) (lease.Reply, error) { return l.read(ctx, ks) })
}

func (l leases) read(ctx context.Context, ks []lease.Key) (reply lease.Reply, err error) {
	found := records{}
	wanted := keys(ks, func(k lease.Key) lease.Key { return k })
	p := new(packet).add("clock").add("now").add("records", l.ns, wanted)
	if err = l.run(ctx, p, readInstant(&reply.Now), found.read); err != nil {
		return lease.Reply{}, fmt.Errorf("read: %w", err)
	}
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
	b := []byte(prefix)
	p := new(packet).add("clock").add("now").add("list", l.ns, b, len(b), b, flag(all))
	err = l.run(ctx, p, readInstant(&reply.Now), func(r *sql.Rows) error {
		rec, err := scanRecord(r)
		reply.Answers = append(reply.Answers, lease.Answer{Status: lease.OK, Record: rec})
		return err
	})
	if err != nil {
		return lease.Reply{}, fmt.Errorf("list: %w", err)
	}
	return reply, nil
}

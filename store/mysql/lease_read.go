package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

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

// listed is the most records that List returns.
const listed = 10_000

// List reads page by page: no statement reads many records that nobody asked for.
func (l leases) List(ctx context.Context, prefix string, all bool) (reply lease.Reply, err error) {
	for next, to := []byte(prefix), beyond(prefix); next != nil && len(reply.Answers) < listed; {
		var page []lease.Record
		if reply.Now, page, err = l.page(ctx, next, to); err != nil {
			return lease.Reply{}, fmt.Errorf("list: %w", err)
		}
		for _, rec := range page {
			if rec.Token > 0 && (all || rec.Live(reply.Now)) && len(reply.Answers) < listed {
				reply.Answers = append(reply.Answers, lease.Answer{Status: lease.OK, Record: rec})
			}
		}
		if next = nil; len(page) == pageRows {
			next = append([]byte(page[pageRows-1].Key), 0)
		}
	}
	return reply, nil
}

// page reads the records whose key lies in [from, to), as many as one statement looks at.
func (l leases) page(ctx context.Context, from, to []byte) (now time.Time, found []lease.Record, err error) {
	p := new(packet).add("list", with("began"), l.ns, from, to, pageRows)
	err = l.run(ctx, p, func(r *sql.Rows) error {
		var us int64
		rec, there, err := scanRecord(r, &us)
		if there {
			found = append(found, rec)
		} else {
			now = instant(us)
		}
		return err
	})
	// They come in this order, but no server promises that of a UNION.
	slices.SortFunc(found, func(x, y lease.Record) int { return cmp.Compare(x.Key, y.Key) })
	return now, found, err
}

// beyond is larger than all keys with the prefix, and no larger than any other that follows them. No text in UTF-8 has
// the byte 0xff.
func beyond(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return []byte{0xff}
}

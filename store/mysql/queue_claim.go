package mysql

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// easy says that the packet can give the task if no other fetch does, whatever else it decides.
func (f *fetch) easy(c candidate) bool {
	return c.class == 0 && c.limit == nil && f.rates[c.name.kind] == nil && (c.expires == 0 || c.expires > micros(f.now))
}

// claims are plain tasks that a packet gives, as far as no other fetch does.
type claims struct {
	worker int64
	want   int
	ids    list
	subs   list // in which they were found
	// room is for how many bytes of arguments there is some (bounded), and one says that one task is given whatever it
	// has. cut says that not all fit.
	bounded, one, cut bool
	room              int
	got               []*taskRow
}

func (c *claims) add(p *packet, b *txn) []reader {
	if c == nil {
		return nil
	}
	p.add("claim-tasks", c.ids, c.subs, c.want)
	var readers []reader
	if c.bounded {
		p.add("claim-what-fits", c.room, c.one, c.ids, c.ids)
		readers = append(readers, func(r *sql.Rows) error { return r.Scan(&c.cut) })
	}
	p.add("claim-them", c.worker).add("claimed-prefix", statements()["task-columns"])
	return append(readers, func(r *sql.Rows) error {
		t, err := readTask(r)
		c.got = append(c.got, t)
		return err
	})
}

// claim names the easy candidates, the first ones first. If their order is that of their ids, it names those behind
// them as well: the server gives these if other fetches have the first.
func (f *fetch) claim() *claims {
	if len(f.plain) == 0 {
		return nil
	}
	c := &claims{worker: f.id, want: len(f.plain), bounded: f.r.Bytes > 0, room: f.r.Bytes - f.bytes, one: f.bytes == 0}
	for _, x := range f.found {
		if f.easy(x) {
			c.ids = append(c.ids, int64(x.id))
			if sub := subQueueNumber(x.name); !slices.Contains(c.subs, any(sub)) {
				c.subs = append(c.subs, sub)
			}
		}
	}
	if !slices.IsSortedFunc(c.ids, func(x, y any) int { return cmp.Compare(x.(int64), y.(int64)) }) {
		c.ids = c.ids[:c.want]
	}
	return c
}

// finish gives what is easy, and sorts the answer.
func (f *fetch) finish() error {
	f.claims = f.claim()
	hard, full := len(f.granted), f.room() <= 0
	if err := f.carryOut(); err != nil {
		return err
	}
	if f.claims != nil {
		for _, t := range f.claims.got {
			f.granted, f.bytes = append(f.granted, t.Given()), f.bytes+len(t.Args)
		}
		f.sated = f.sated || f.claims.cut
		if len(f.granted)-hard < f.claims.want && !f.claims.cut { // others have them, and there may be more behind
			for _, id := range f.claims.ids {
				f.passBy(task.ID(id.(int64)))
			}
		}
	}
	f.again = f.again || full && !f.sated && len(f.given)+len(f.granted) < f.r.Max // than one pass gives
	place := map[task.ID]int{}
	for i, c := range f.found {
		place[c.id] = i
	}
	slices.SortStableFunc(f.granted, func(a, b driver.Fetched) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return nil
}

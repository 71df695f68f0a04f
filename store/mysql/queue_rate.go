package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// A rate is how many tasks of a kind may be fetched, as a bucket that fills with time.
type rate struct {
	ver   int64
	each  time.Duration // the time that one task costs
	burst time.Duration // how far ahead of now full may be
	full  time.Time     // when the bucket is full again
	used  bool
}

func (r *rate) ready(now time.Time) bool { return r.full.Add(r.each).Sub(now) <= r.burst }

func (r *rate) take(now time.Time) {
	if r.full.Before(now) {
		r.full = now
	}
	r.full, r.used = r.full.Add(r.each), true
}

func (f *fetch) readRate(r *sql.Rows) error {
	var kind string
	var x rate
	var full int64
	err := r.Scan(&kind, &x.ver, &x.each, &x.burst, &full)
	x.full = instant(full)
	f.rates[kind] = &x
	return err
}

// Declare fulfils queue.Store.
func (q queues) Declare(ctx context.Context, rates map[string]queue.Rate) error {
	if len(rates) == 0 {
		return nil
	}
	p := new(packet).add("begin")
	for _, kind := range sortedKeys(rates) {
		r := rates[kind]
		if r.Count <= 0 || r.Per <= 0 {
			p.add("drop-rate", q.ns, []byte(kind))
			continue
		}
		burst := r.Burst
		if burst <= 0 {
			burst = r.Count
		}
		each := int64(r.Per / time.Duration(r.Count))
		p.add("set-rate", q.ns, []byte(kind), each, each*int64(burst), each, each*int64(burst))
	}
	if err := q.run(ctx, p.add("commit")); err != nil {
		return fmt.Errorf("declare: %w", err)
	}
	return nil
}

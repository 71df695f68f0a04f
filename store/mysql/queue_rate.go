package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A rate is how many tasks of a kind may be fetched.
type rate struct {
	lifecycle.Bucket
	ver  int64
	used bool
}

func (f *fetch) readRate(r *sql.Rows) error {
	var kind string
	var x rate
	var full int64
	err := r.Scan(&kind, &x.ver, &x.Each, &x.Burst, &full)
	x.Full = instant(full)
	f.rates[kind] = &x
	return err
}

// Declare fulfils driver.Store.
func (q queues) Declare(ctx context.Context, rates map[string]task.Rate) error {
	if len(rates) == 0 {
		return nil
	}
	p := new(packet).add("begin")
	for _, kind := range sortedKeys(rates) {
		b, bounds := lifecycle.BucketOf(rates[kind])
		if !bounds {
			p.add("drop-rate", q.ns, []byte(kind))
			continue
		}
		each, burst := int64(b.Each), int64(b.Burst)
		p.add("set-rate", q.ns, []byte(kind), each, burst, each, burst)
	}
	if err := q.run(ctx, p.add("commit")); err != nil {
		return fmt.Errorf("declare: %w", err)
	}
	return nil
}

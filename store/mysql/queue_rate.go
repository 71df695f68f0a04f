package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

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
	var taken string
	err := r.Scan(&kind, &x.ver, &x.Each, &x.Burst, &full, &x.Per, &x.Most, &taken)
	x.Full, x.Taken = instant(full), lifecycle.ParseTaken(taken)
	f.rates[kind] = &x
	return err
}

// Declare fulfils driver.Store, in steps of a chunk of rates.
func (q queues) Declare(ctx context.Context, rates map[string]task.Rate) error {
	for kinds := range slices.Chunk(sortedKeys(rates), chunk) {
		p, dropped := new(packet).add("begin"), list{}
		for _, kind := range kinds {
			if b, bounds := lifecycle.BucketOf(rates[kind]); bounds {
				p.add("set-rate", q.ns, []byte(kind), int64(b.Each), int64(b.Burst), int64(b.Per), b.Most)
			} else {
				dropped = append(dropped, []byte(kind))
			}
		}
		if len(dropped) > 0 {
			p.add("drop-rates", q.ns, dropped)
		}
		if err := q.run(ctx, p.add("commit")); err != nil {
			return fmt.Errorf("declare: %w", err)
		}
	}
	return nil
}

//go:build linux

package file

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
)

func (b *txn) pauses() ([]driver.Pause, error) {
	return rows(b, func(row scanner) (p driver.Pause, err error) {
		var since, until int64
		err = row.Scan(&p.Queue, &p.Kind, &since, &until, &p.By, &p.Why)
		p.Since, p.Until = instantOf(since), instantOf(until)
		return p, err
	}, "pauses", micros(b.now))
}

// Pauses fulfils driver.Admin.
func (d admin) Pauses(ctx context.Context) (all []driver.Pause, err error) {
	err = d.look(ctx, func(b *txn) (err error) {
		all, err = b.pauses()
		return err
	})
	return all, err
}

// Rates fulfils driver.Admin.
func (d admin) Rates(ctx context.Context) (map[string]driver.RateStatus, error) {
	all := map[string]driver.RateStatus{}
	err := d.look(ctx, func(b *txn) error {
		rates, err := b.rates()
		for kind, r := range rates {
			all[kind] = r.RateStatus()
		}
		return err
	})
	return all, err
}

// Pause fulfils driver.Admin.
func (d admin) Pause(ctx context.Context, p driver.Pause) error {
	return d.db.step(ctx, func(b *txn) error {
		if err := b.exec("pause", p.Queue, p.Kind, micros(b.now), micros(p.Until), p.By, p.Why); err != nil {
			return err
		}
		return b.record(p.Event())
	})
}

// Resume fulfils driver.Admin.
func (d admin) Resume(ctx context.Context, name, kind, by string) (ok bool, err error) {
	err = d.db.step(ctx, func(b *txn) error {
		var until int64
		err := b.scan("resume", []any{name, kind}, &until)
		if errors.Is(err, sql.ErrNoRows) {
			ok = false
			return nil
		}
		if ok = err == nil && (until == 0 || b.now.Before(instantOf(until))); err != nil || !ok {
			return err
		}
		return b.record(driver.ResumeEvent(name, kind, by))
	})
	return ok, err
}

// watchEvery is how often the database is looked at for a change. A look reads shared memory, no disk.
const watchEvery = 5 * time.Millisecond

// Watch fulfils driver.Store: any change of the database wakes the watcher, whatever process made it.
func (q queues) Watch(ctx context.Context, _ []string) (<-chan struct{}, error) {
	if _, err := q.db.open(ctx); err != nil {
		return nil, err
	}
	at, err := q.db.watcher(ctx)
	if err != nil {
		return nil, err
	}
	signs := make(chan struct{}, 1)
	go func() {
		defer close(signs)
		defer func() { at.close() }()
		var last int64
		for tick := time.NewTicker(watchEvery); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			var now int64
			err := at.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&now)
			if isTorn(err) {
				at.close()
				_ = q.db.fail("watch", err)
				at, err = q.db.watcher(ctx)
			}
			if err != nil {
				return // who waits polls as well
			}
			if now != last {
				last = now
				select {
				case signs <- struct{}{}:
				default:
				}
			}
		}
	}()
	return signs, nil
}

// A watcher is a connection that looks for changes, the only one of its pool.
type watcher struct {
	pool *sql.DB
	conn *sql.Conn
}

func (s *db) watcher(ctx context.Context) (w watcher, err error) {
	w.pool = s.pool(1, "_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	if w.conn, err = w.pool.Conn(ctx); err != nil {
		w.close()
	}
	return w, s.fail("watch", err)
}

func (w watcher) close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
	_ = w.pool.Close()
}

package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
)

func readPauses(to *[]driver.Pause) reader {
	return func(r *sql.Rows) error {
		var p driver.Pause
		var since, until int64
		err := r.Scan(&p.Queue, &p.Kind, &since, &until, &p.By, &p.Why)
		p.Since, p.Until = instant(since), instant(until)
		*to = append(*to, p)
		return err
	}
}

// Pauses fulfils driver.Admin.
func (d admin) Pauses(ctx context.Context) (all []driver.Pause, err error) {
	err = d.run(ctx, new(packet).add("clock").add("pauses", d.ns), readPauses(&all))
	return all, err
}

// Rates fulfils driver.Admin.
func (d admin) Rates(ctx context.Context) (map[string]driver.RateStatus, error) {
	f := fetch{txn: &txn{}}
	f.rates = map[string]*rate{}
	err := d.run(ctx, new(packet).add("rates", d.ns), f.readRate)
	all := map[string]driver.RateStatus{}
	for kind, r := range f.rates {
		all[kind] = r.RateStatus()
	}
	return all, err
}

// Pause fulfils driver.Admin.
func (d admin) Pause(ctx context.Context, x driver.Pause) error {
	name, kind := []byte(x.Queue), []byte(x.Kind)
	p := new(packet).add("begin").add("before-pause", d.ns).add("lock-pause", d.ns, name, kind).add("clock")
	p.add("pause-queue", d.ns, name, kind, micros(x.Until), text(x.By), text(x.Why))
	eventKind, reason := x.Event()
	d.addEvent(p, eventKind, reason)
	if err := d.run(ctx, p.add("commit")); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// Resume fulfils driver.Admin.
func (d admin) Resume(ctx context.Context, name, kind, by string) (ok bool, err error) {
	n, k := []byte(name), []byte(kind)
	p := new(packet).add("begin").add("lock-pause", d.ns, n, k).add("clock").add("was-paused", d.ns, n, k).add("resume-queue", d.ns, n, k)
	eventKind, reason := driver.ResumeEvent(name, kind, by)
	p.add("resumed", d.ns, []byte(run.NewID()), []byte(eventKind), text(reason)).add("commit")
	if err = d.run(ctx, p, func(r *sql.Rows) error { return r.Scan(&ok) }); err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	return ok, nil
}

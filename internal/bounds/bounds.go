// Package bounds bounds the texts of what stores keep, in one place, so that every reader can take whatever a caller
// writes. A store passes each of its requests through Of first.
package bounds

import (
	"maps"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/keys"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// kept is what stores are given to keep.
type kept interface {
	[]lease.AcquireRequest | lease.Holder | lease.Broken |
		[]tick.ClaimRequest | tick.TakeRequest | []tick.StartRequest | []tick.CloseRequest | tick.PauseRequest | tick.SettleRequest |
		[]tick.Tick | []run.Record | []history.Event
}

// cut cuts texts in their place.
func cut[S ~string](all ...*S) {
	for _, s := range all {
		*s = S(keys.Text(string(*s)))
	}
}

// Of returns v with each text cut. What v refers to stays as it is. Keys, names of jobs and definitions are not cut:
// they have bounds of their own, beyond which they are refused.
func Of[T kept](v T) T {
	switch v := any(v).(type) {
	case []lease.AcquireRequest:
		return any(each(v, func(q *lease.AcquireRequest) { holder(&q.Holder) })).(T)
	case lease.Holder:
		holder(&v)
		return any(v).(T)
	case lease.Broken:
		cut(&v.By, &v.Why)
		return any(v).(T)
	case []tick.ClaimRequest:
		return any(each(v, func(q *tick.ClaimRequest) { holder(&q.Claimant); cut(&q.Reason); cut(&q.Outcome) })).(T)
	case tick.TakeRequest:
		holder(&v.Claimant)
		return any(v).(T)
	case []tick.StartRequest:
		return any(each(v, func(q *tick.StartRequest) { record(&q.Run) })).(T)
	case []tick.CloseRequest:
		return any(each(v, func(q *tick.CloseRequest) { record(&q.Run) })).(T)
	case tick.PauseRequest:
		cut(&v.By, &v.Why)
		return any(v).(T)
	case tick.SettleRequest:
		v.Rows = each(v.Rows, row)
		return any(v).(T)
	case []tick.Tick:
		return any(each(v, row)).(T)
	case []run.Record:
		return any(each(v, record)).(T)
	case []history.Event:
		return any(each(v, func(e *history.Event) { cut(&e.Kind, &e.RunID, &e.Host, &e.Reason) })).(T)
	}
	return v
}

// each returns copies of items after change; nil for none.
func each[T any](items []T, change func(*T)) []T {
	if len(items) == 0 {
		return items
	}
	all := append([]T(nil), items...)
	for i := range all {
		change(&all[i])
	}
	return all
}

func holder(h *lease.Holder) {
	cut(&h.Host, &h.HostID, &h.BootID, &h.PIDNS, &h.RunID, &h.Command, &h.Cgroup)
}

func row(t *tick.Tick) {
	holder(&t.Claimant)
	cut(&t.RunID, &t.Reason)
	cut(&t.Outcome)
	cut(&t.State)
}

func record(r *run.Record) {
	cut(&r.ID, &r.Host, &r.Command, &r.Reason)
	cut(&r.Outcome)
	r.Attempts = each(r.Attempts, attempt)
	if r.Cause != nil {
		c := *r.Cause
		cut(&c.By, &c.Why, &c.Backfill)
		r.Cause = &c
	}
}

func attempt(a *run.Attempt) {
	cut(&a.Error)
	cut(&a.Outcome)
	if a.Response != nil {
		of := *a.Response
		of.Headers = maps.Clone(of.Headers)
		for name, value := range of.Headers {
			of.Headers[name] = keys.Text(value)
		}
		a.Response = &of
	}
}

package mirror

import (
	"context"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// View returns a backend to read from: what a host has copied to p, under the names that its jobs have on the host.
// Of the registry it has Jobs only; nothing can be claimed or recorded there.
func (h Host) View(p *scheduler.Backend) *scheduler.Backend {
	return &scheduler.Backend{Name: p.Name, Keeper: p.Keeper, Self: p.Self, Log: p.Log,
		Ticks: viewTicks{host: h}, History: viewHistory{p.History, h.ID}}
}

// viewTicks is a read-only registry.
type viewTicks struct {
	tick.Store // nil: to call anything but Jobs is a mistake in the program
	host       Host
}

func (v viewTicks) Jobs(_ context.Context, q tick.JobQuery) ([]tick.Job, error) {
	found := slices.DeleteFunc(slices.Clone(v.host.Jobs), func(j tick.Job) bool {
		if len(q.Names) > 0 {
			return !slices.Contains(q.Names, j.Name)
		}
		return !strings.HasPrefix(j.Name, q.Prefix) || j.Name <= q.After
	})
	slices.SortFunc(found, func(x, y tick.Job) int { return strings.Compare(x.Name, y.Name) })
	return found[:min(len(found), q.Max())], nil
}

// viewHistory returns the records of one host.
type viewHistory struct {
	history.Store
	host string
}

func (v viewHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	rows, err := v.Store.Ticks(ctx, v.named(q))
	return ofHost(v.host, rows, func(t *tick.Tick) *string { return &t.Job }), err
}

func (v viewHistory) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	rows, err := v.Store.Runs(ctx, v.named(q))
	return ofHost(v.host, rows, func(r *run.Record) *string { return &r.Job }), err
}

func (v viewHistory) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	rows, err := v.Store.Events(ctx, v.named(q))
	return ofHost(v.host, rows, func(e *history.Event) *string { return &e.Job }), err
}

func (v viewHistory) named(q history.Query) history.Query {
	if q.Job != "" {
		q.Job = On(q.Job, v.host)
	}
	return q
}

// ofHost keeps the rows of a host, under the names that their jobs have there.
func ofHost[T any](host string, rows []T, job func(*T) *string) []T {
	var own []T
	for i := range rows {
		name := job(&rows[i])
		if base, of := Split(*name); of == host {
			*name = base
			own = append(own, rows[i])
		}
	}
	return own
}

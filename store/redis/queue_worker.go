package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
)

func (q tasks) Register(ctx context.Context, w driver.Process) error {
	w.Running, w.Since = 0, time.Time{}
	r, err := q.run(ctx, "join", registerScript, append(q.newArgs(4), string(w.Lease.Key), hold(w.Lease), w.Host, text(w)))
	if err == nil && r.int(1) != 1 {
		err = driver.ErrStale
	}
	return err
}

func (q tasks) Deregister(ctx context.Context, worker lease.Ref) error {
	for {
		r, err := q.run(ctx, "leave", deregisterScript, append(q.newArgs(2), hold(worker), maxBatch))
		if err != nil || r.int(1) == 0 {
			return err
		}
	}
}

// parseWorker reads what worker.lua's worker_info answers.
func parseWorker(r reply) (w driver.Process) {
	if s := r.text(3); s != "" {
		_ = json.Unmarshal([]byte(s), &w) // told, never decided upon
	}
	w.Lease, w.Since = parseHold(lease.Key(r.text(0)), r.text(1)), r.time(2)
	return w
}

func (q tasks) Maintain(ctx context.Context, t driver.MaintainRequest) (driver.Maintained, error) {
	if t.Max <= 0 || t.Max > 1000 {
		t.Max = 1000
	}
	a := append(q.newArgs(1+2*len(t.Keep)), t.Max)
	for s, keep := range t.Keep {
		if s.Final() {
			a = append(a, stateNumber(s), keep.Microseconds())
		}
	}
	r, err := q.run(ctx, "maintain", maintainScript, a)
	if err != nil {
		return driver.Maintained{}, err
	}
	out := driver.Maintained{
		Now: r.time(0), Rescued: int(r.int(1)), Crashed: int(r.int(2)), Expired: int(r.int(3)), Due: int(r.int(4)),
		Freed: int(r.int(5)), Deleted: int(r.int(6)), Repaired: int(r.int(7)), More: r.int(8) == 1,
	}
	for i := 9; i+1 < len(r); i += 2 {
		w := parseWorker(r.list(i))
		w.Running = int(r.int(i + 1))
		out.Dead = append(out.Dead, w)
	}
	return out, nil
}

// Workers looks at some at a time; one may be met twice meanwhile.
func (d admin) Workers(ctx context.Context) ([]driver.Process, error) {
	var out []driver.Process
	met := map[lease.Ref]bool{}
	for at := "0"; ; {
		r, err := d.run(ctx, "list workers", workersScript, append(d.newArgs(1), at))
		if err != nil {
			return nil, err
		}
		for i := 2; i+1 < len(r); i += 2 {
			w := parseWorker(r.list(i))
			w.Running = int(r.int(i + 1))
			if !met[w.Lease] {
				met[w.Lease] = true
				out = append(out, w)
			}
		}
		if at = r.text(1); at == "0" {
			break
		}
	}
	slices.SortFunc(out, func(x, y driver.Process) int {
		return cmp.Or(strings.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
	})
	return out, nil
}

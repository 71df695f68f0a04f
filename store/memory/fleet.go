package memory

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
)

// processes is b's side of fleet.Store.
type processes struct{ b *Backend }

// A report is what a process said of itself.
type report struct {
	id     lease.Nonce
	seen   time.Time
	record []byte
}

// reports are sorted, the latest first.
func (b *Backend) reports() []report {
	all := make([]report, 0, len(b.processes))
	for _, r := range b.processes {
		all = append(all, r)
	}
	slices.SortFunc(all, func(x, y report) int { return y.seen.Compare(x.seen) })
	return all
}

func (f processes) Report(ctx context.Context, p fleet.Process) error {
	_, err := step(ctx, f.b, func(now time.Time) any {
		seen := micro(p.Seen)
		if seen.IsZero() || seen.After(now) {
			seen = now
		}
		f.b.processes[p.ID] = report{p.ID, seen, p.Record()}
		all, crowded := f.b.reports(), time.Time{}
		if len(all) > fleet.Crowd {
			crowded = all[fleet.Crowd].seen
		}
		before, _ := fleet.Forget(now, all[len(all)-1].seen, crowded)
		for i := len(all) - 1; i >= max(len(all)-fleet.Step, 0) && all[i].seen.Before(before); i-- {
			delete(f.b.processes, all[i].id)
		}
		return nil
	})
	return err
}

func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	now, err = step(ctx, f.b, func(now time.Time) time.Time {
		for _, r := range f.b.reports() {
			if len(all) == fleet.Most {
				break
			}
			all = append(all, fleet.Parse(r.record, r.seen))
		}
		return now
	})
	return fleet.Readable(all, now), now, err
}

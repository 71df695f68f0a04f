package redis

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/fleet"
)

// processes fulfils fleet.Store: the records in a hash, and when each was reported in a sorted set.
type processes struct{ *db }

func (f processes) Report(ctx context.Context, p fleet.Process) error {
	r, err := f.run(ctx, "report a process", reportScript, append(f.newArgs(4), p.ID.String(), micros(p.Seen), p.Record(), fleet.Crowd))
	if err != nil {
		return err
	}
	if before, some := fleet.Forget(r.time(0), r.time(1), r.time(2)); some && r.int(1) > 0 {
		_, err = f.run(ctx, "forget processes", forgetProcessesScript, append(f.newArgs(2), micros(before), fleet.Step))
	}
	return err
}

func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	r, err := f.run(ctx, "list processes", processesScript, append(f.newArgs(1), fleet.Most))
	if err != nil {
		return nil, time.Time{}, err
	}
	pairs := r.list(1)
	err = inBatches(slices.Collect(slices.Chunk(pairs, 2)), func(part []reply) error {
		ids := make([]string, len(part))
		for i, pair := range part {
			ids[i] = pair.text(0)
		}
		records, err := f.client.HMGet(ctx, f.prefix+"process", ids...).Result()
		if err != nil {
			return f.wrap("read processes", err)
		}
		for i, record := range records {
			text, _ := record.(string) // none: forgotten meanwhile
			all = append(all, fleet.Parse([]byte(text), part[i].time(1)))
		}
		return nil
	})
	return fleet.Readable(all), r.time(0), err
}

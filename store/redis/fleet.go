package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

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
		// The record is kept, whatever becomes of old ones: the next report tries again.
		_, _ = f.run(ctx, "forget processes", forgetProcessesScript, append(f.newArgs(2), micros(before), fleet.Step))
	}
	return nil
}

// Processes reads the index, and then the records in batches.
func (f processes) Processes(ctx context.Context) (all []fleet.Process, now time.Time, err error) {
	at, err := f.client.Time(ctx).Result()
	if err != nil {
		return nil, time.Time{}, f.wrap("time", err)
	}
	found, err := f.client.ZRevRangeWithScores(ctx, f.prefix+"processes", 0, fleet.Most-1).Result()
	if err != nil {
		return nil, time.Time{}, f.wrap("list processes", err)
	}
	err = inBatches(found, func(part []goredis.Z) error {
		ids := make([]string, len(part))
		for i, z := range part {
			ids[i] = z.Member.(string)
		}
		records, err := f.client.HMGet(ctx, f.prefix+"process", ids...).Result()
		if err != nil {
			return f.wrap("read processes", err)
		}
		for i, record := range records {
			text, _ := record.(string) // none: forgotten meanwhile
			all = append(all, fleet.Parse([]byte(text), instant(int64(part[i].Score))))
		}
		return nil
	})
	return fleet.Readable(all, at), at.UTC(), err
}

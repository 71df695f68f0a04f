package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

var actAnswers = map[int64]driver.OpAnswer{1: driver.Done, 2: driver.Asking, 3: driver.NotThere, 4: driver.Unfit, 5: driver.Taken, 6: driver.Changed}

// Operate leaves it to the script to count and name the tasks in the event's words, as driver.OpRequest does.
func (d admin) Operate(ctx context.Context, act driver.OpRequest) ([]driver.OpResult, error) {
	kind, words := act.Event(nil)
	tail := strings.TrimPrefix(words, "0 tasks: ")
	priority, runAt := any(""), any("")
	if p := act.Edit.Priority; p != nil {
		priority = *p
	}
	if at := act.Edit.RunAt; at != nil {
		runAt = micros(*at)
	}
	among := ""
	for _, s := range act.States {
		among += string(rune(stateNumber(s)))
	}
	out := make([]driver.OpResult, 0, len(act.IDs))
	err := inBatches(act.IDs, func(ids []task.ID) error {
		a := append(d.newArgs(8+len(ids)), string(act.Operation), act.Queue, priority, runAt, kind, tail, act.From, among)
		for _, id := range ids {
			a = append(a, int64(id))
		}
		r, err := d.run(ctx, "act on tasks", operateScript, a)
		if err != nil {
			return err
		}
		for i, id := range ids {
			out = append(out, driver.OpResult{ID: id, Answer: actAnswers[r.int(1+3*i)], State: stateOf(r.int(2 + 3*i)), Other: task.ID(r.int(3 + 3*i))})
		}
		return nil
	})
	return out, err
}

func (d admin) Pause(ctx context.Context, p driver.Pause) error {
	kind, words := p.Event()
	a := append(d.newArgs(5), subQueueName(p.Queue, p.Kind), micros(p.Until), text(p), kind, words)
	_, err := d.run(ctx, "pause", pauseQueueScript, a)
	return err
}

func (d admin) Resume(ctx context.Context, name, kind, by string) (ok bool, err error) {
	event, words := driver.ResumeEvent(name, kind, by)
	r, err := d.run(ctx, "resume", pauseQueueScript, append(d.newArgs(5), subQueueName(name, kind), 0, "", event, words))
	return r.int(1) == 1, err
}

// Rates reads what declare.lua writes: of each kind, what one task costs, the bucket, when it is full, and the kind.
func (d admin) Rates(ctx context.Context) (map[string]driver.RateStatus, error) {
	lines, err := d.client.HVals(ctx, d.prefix+"rates").Result()
	if err != nil {
		return nil, d.wrap("read rates", err)
	}
	all := map[string]driver.RateStatus{}
	for _, line := range lines {
		var each, burst, full, per int64
		var most int
		var taken, kind string
		if _, err := fmt.Sscan(line, &each, &burst, &full, &per, &most, &taken, &kind); err != nil {
			return nil, fmt.Errorf("read rates: %q: %w", line, err)
		}
		b := lifecycle.Bucket{Each: time.Duration(each) * time.Microsecond, Burst: time.Duration(burst) * time.Microsecond, Full: time.UnixMicro(full),
			Per: time.Duration(per) * time.Microsecond, Most: most, Taken: lifecycle.ParseTaken(strings.ReplaceAll(taken, ",", " "))}
		all[kind] = b.RateStatus()
	}
	return all, nil
}

func (d admin) Pauses(ctx context.Context) ([]driver.Pause, error) {
	now, err := d.client.Time(ctx).Result()
	if err != nil {
		return nil, d.wrap("read pauses", err)
	}
	all, err := d.client.HGetAll(ctx, d.prefix+"pauses").Result()
	if err != nil {
		return nil, d.wrap("read pauses", err)
	}
	var out []driver.Pause
	for _, v := range all {
		if p := parsePause(v); p.Until.IsZero() || now.Before(p.Until) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(x, y driver.Pause) int {
		return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
	})
	return out, nil
}

// parsePause reads what pause.lua writes: until, since, and the pause itself.
func parsePause(s string) (p driver.Pause) {
	f := strings.SplitN(s, " ", 3)
	if len(f) == 3 {
		_ = json.Unmarshal([]byte(f[2]), &p) // told, never decided upon
		times := reply{f[0], f[1]}
		p.Until, p.Since = times.time(0), times.time(1)
	}
	return p
}

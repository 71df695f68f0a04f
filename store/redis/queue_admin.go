package redis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// admin fulfils driver.Admin.
type admin struct{ *db }

// subQueuesAtOnce bounds a look at sub-queues: each may cost a hundredth of a millisecond.
const subQueuesAtOnce = 100

// Queues looks at some sub-queues at a time.
func (d admin) Queues(ctx context.Context) ([]driver.SubQueue, error) {
	numbers, err := d.client.HKeys(ctx, d.prefix+"subqueues").Result()
	if err != nil {
		return nil, d.wrap("list queues", err)
	}
	var out []driver.SubQueue
	for len(numbers) > 0 {
		part := numbers[:min(len(numbers), subQueuesAtOnce)]
		a := d.newArgs(len(part))
		for _, n := range part {
			a = append(a, n)
		}
		r, err := d.run(ctx, "list queues", subQueuesScript, a)
		if err != nil {
			return nil, err
		}
		done := (len(r) - 1) / 3 // the first ones at least
		if done == 0 {
			return nil, fmt.Errorf("redis %s: list queues: none of %d sub-queues was answered", d.addr, len(part))
		}
		for i := 1; i+2 < len(r); i += 3 {
			if l := parseSubQueue(r.text(i), r.list(i+1), r.time(i+2)); len(l.Depth) > 0 {
				out = append(out, l)
			}
		}
		numbers = numbers[done:]
	}
	if out, err = d.addPaused(ctx, out); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(x, y driver.SubQueue) int {
		return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
	})
	return out, nil
}

func parseSubQueue(name string, depth reply, oldest time.Time) driver.SubQueue {
	l := driver.SubQueue{Depth: map[task.State]int{}, Oldest: oldest}
	l.Queue, l.Kind, _ = strings.Cut(name, "\x1f")
	for i := 0; i+1 < len(depth); i += 2 {
		if n := depth.int(i + 1); n != 0 {
			l.Depth[stateOf(depth.int(i))] = int(n)
		}
	}
	return l
}

// addPaused adds the sub-queues that are paused by name and have no tasks.
func (d admin) addPaused(ctx context.Context, subs []driver.SubQueue) ([]driver.SubQueue, error) {
	pauses, err := d.Pauses(ctx)
	for _, p := range pauses {
		there := slices.ContainsFunc(subs, func(l driver.SubQueue) bool { return l.Queue == p.Queue && l.Kind == p.Kind })
		if p.Queue != "" && p.Kind != "" && !there {
			subs = append(subs, driver.SubQueue{Queue: p.Queue, Kind: p.Kind, Depth: map[task.State]int{}})
		}
	}
	return subs, err
}

// Tasks goes through them in looks of a few thousand.
func (d admin) Tasks(ctx context.Context, f driver.Filter) ([]driver.Task, error) {
	var out []driver.Task
	for {
		a := append(d.newArgs(10+len(f.States)), int64(f.After), int64(f.Before), f.Newest, micros(f.Since), f.Rows(), f.Queue, f.Kind,
			quoted(f.Tag), quoted(f.Unique), quoted(f.Limit))
		for _, s := range f.States {
			a = append(a, stateNumber(s))
		}
		r, err := d.run(ctx, "list tasks", listTasksScript, a)
		if err != nil {
			return nil, err
		}
		subs, workers := r.list(2).named(), r.list(3).workers()
		for i := 4; i+2 < len(r); i += 3 {
			t := d.parseTask(r.int(i), r.text(i+1), r.text(i+2), subs, workers)
			if selects(f, &t) {
				out = append(out, t)
			}
			if len(out) == f.Rows() {
				return out, nil
			}
		}
		if r.int(1) == 0 {
			return out, nil
		}
		f = f.Past(task.ID(r.int(1)))
	}
}

// quoted is a word as it is in a packed spec, where there is one.
func quoted(word string) string {
	if word == "" {
		return ""
	}
	return text(word)
}

// selects judges by what scripts do not take apart: they have seen that the words are there.
func selects(f driver.Filter, t *driver.Task) bool {
	return (f.Tag == "" || slices.Contains(t.Tags, f.Tag)) &&
		(f.Unique == "" || t.Unique != nil && t.Unique.Key == f.Unique) &&
		(f.Limit == "" || t.Limit != nil && t.Limit.Key == f.Limit)
}

func (r reply) workers() map[uint32]driver.Process {
	m := make(map[uint32]driver.Process, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		m[uint32(r.int(i))] = parseWorker(r.list(i + 1))
	}
	return m
}

func (d admin) parseTask(id int64, packed, spec string, subs map[uint32]string, workers map[uint32]driver.Process) (t driver.Task) {
	r := parseRow(packed)
	var err error
	t = driver.Task{
		ID: task.ID(id), State: r.state, Front: r.front, Enqueued: r.enqueued, Started: r.started, Ended: r.ended,
		Attempts: r.attempts, Granted: r.granted, Crashes: r.crashes, Snoozes: r.snoozes, Suspect: r.suspect,
		Token: r.token, Worker: workers[r.worker], Reason: r.reason, Stop: r.stop,
	}
	t.Spec, err = parseSpec(spec, r, subs[r.sub])
	if (err != nil || t.State == "") && !t.State.Final() {
		t.State, t.Reason = task.Damaged, string(task.Damaged)
		if err != nil {
			t.Reason += ": its spec cannot be read: " + err.Error()
		}
	}
	return t
}

func (d admin) Task(ctx context.Context, id task.ID) (t driver.Task, held driver.Slots, ok bool, err error) {
	r, err := d.run(ctx, "read task", showTaskScript, append(d.newArgs(1), int64(id)))
	if err != nil || r.text(1) == "" {
		return t, held, false, err
	}
	t = d.parseTask(int64(id), r.text(1), r.text(2), r.list(3).named(), r.list(4).workers())
	for i := range r.list(5) {
		t.History = append(t.History, parseTry(r.list(5).text(i)))
	}
	if t.Limit != nil {
		held = parseSlots(t.Limit.Key, r.list(6))
	}
	return t, held, true, nil
}

// parseTry reads an attempt as worker.lua's remember writes it.
func parseTry(s string) (a task.Attempt) {
	f := strings.SplitN(s, "\x1f", 6)
	if len(f) < 6 {
		return a
	}
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	return task.Attempt{N: int(number(f[0])), Host: f[1], Outcome: f[2], Started: instant(number(f[3])), Ended: instant(number(f[4])), Error: f[5]}
}

func parseSlots(key string, r reply) driver.Slots {
	s := driver.Slots{Key: key, Max: int(r.int(1)), Waiting: int(r.int(2))}
	for i := 3; i+3 < len(r); i += 4 {
		_, kind, _ := strings.Cut(r.text(i+1), "\x1f")
		s.Running = append(s.Running, driver.Holding{ID: task.ID(r.int(i)), Kind: kind, Worker: parseWorker(r.list(i + 2)), Since: r.time(i + 3)})
	}
	slices.SortFunc(s.Running, func(x, y driver.Holding) int { return cmp.Compare(x.ID, y.ID) })
	return s
}

// Counts reads the minutes that there are, some at a time.
func (d admin) Counts(ctx context.Context, from, to time.Time) ([]driver.Count, error) {
	by := &goredis.ZRangeBy{Min: strconv.FormatInt(micros(from), 10), Max: "(" + strconv.FormatInt(micros(to), 10)}
	minutes, err := d.client.ZRangeByScore(ctx, d.prefix+"minutes", by).Result()
	if err != nil {
		return nil, d.wrap("read counters", err)
	}
	sums := map[string]int64{}
	for part := range slices.Chunk(minutes, maxBatch) {
		pipe := d.client.Pipeline()
		var all []*goredis.MapStringStringCmd
		for _, m := range part {
			all = append(all, pipe.HGetAll(ctx, d.prefix+"counts:"+m))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, d.wrap("read counters", err)
		}
		for _, c := range all {
			for field, n := range c.Val() {
				i, _ := strconv.ParseInt(n, 10, 64)
				sums[field] += i
			}
		}
	}
	out := make([]driver.Count, 0, len(sums))
	for field, n := range sums {
		if f := strings.SplitN(field, "\x1f", 3); len(f) == 3 {
			out = append(out, driver.Count{Queue: f[0], Kind: f[1], Name: f[2], N: n})
		}
	}
	slices.SortFunc(out, func(x, y driver.Count) int {
		return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name))
	})
	return out, nil
}

func (d admin) SetLimit(ctx context.Context, key task.Hash, slots int, by string) (ok bool, err error) {
	_, words := driver.LimitEvent("", 0, 0, by)
	if slots <= 0 {
		_, words = driver.BackEvent("", 0, 0, by)
	}
	tail := strings.TrimPrefix(words, `"" from 0 to 0`)
	r, err := d.run(ctx, "set limit", setLimitScript, append(d.newArgs(4), hex.EncodeToString(key[:]), max(slots, 0), tail, by))
	return r.int(1) == 1, err
}

func (d admin) Limits(ctx context.Context) (words []driver.Word, err error) {
	r, err := d.run(ctx, "read limits", wordsScript, d.newArgs(0))
	for i := 1; i+5 < len(r); i += 6 {
		w := driver.Word{Key: r.text(i + 1), Max: int(r.int(i + 2)), Declared: int(r.int(i + 3)), By: r.text(i + 4), Since: r.time(i + 5)}
		if _, err := hex.Decode(w.Hash[:], []byte(r.text(i))); err != nil {
			return nil, d.wrap("read limits", fmt.Errorf("%q is no limit: %w", r.text(i), err))
		}
		words = append(words, w)
	}
	slices.SortFunc(words, func(x, y driver.Word) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), bytes.Compare(x.Hash[:], y.Hash[:]))
	})
	return words, err
}

package redis

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// tasks fulfils driver.Store: one script per operation, which carries out a batch of up to maxBatch items, in
// Enqueue of maxEnqueue.
type tasks struct {
	*db
	notify *notifier
}

// These bound what one script takes in. A Client sends a thousand tasks at most, which are then one atomic step
// unless their arguments are very large.
const maxEnqueue, maxBytes = 1000, 16 << 20

// Enqueue takes tasks in, maxEnqueue per script.
func (q tasks) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	out := make([]task.Enqueued, 0, len(specs))
	for len(specs) > 0 {
		n, size := 0, 0
		for n < min(len(specs), maxEnqueue) && (n == 0 || size+len(specs[n].Args) <= maxBytes) {
			size += len(specs[n].Args)
			n++
		}
		r, err := q.takeIn(ctx, specs[:n])
		if err != nil {
			return nil, err
		}
		for i := range n {
			what := r.int(1 + 2*i)
			out = append(out, task.Enqueued{Answer: admissions[what/16], ID: task.ID(r.int(2 + 2*i)), State: stateOf(what % 16)})
		}
		specs = specs[n:]
	}
	return out, nil
}

// takeIn takes one batch in, in one step. Unique keys are first assumed to be free, which is cheap and mostly so.
func (q tasks) takeIn(ctx context.Context, specs []task.Spec) (reply, error) {
	a := q.enqueueArgs(specs)
	if !slices.ContainsFunc(specs, needsOthers) {
		if r, err := q.run(ctx, "enqueue", freeScript, a); err != nil || len(r) > 1 {
			return r, err
		}
	}
	return q.run(ctx, "enqueue", enqueueScript, a)
}

// needsOthers says that a task depends on other tasks even if its key is free, or that time may end it.
func needsOthers(s task.Spec) bool {
	return s.Limit != nil || !s.ExpiresAt.IsZero() || s.Unique != nil && (s.Unique.Again == task.Replace || s.Unique.Again == task.Debounce)
}

var admissions = map[int64]task.Admission{1: task.New, 2: task.Duplicate, 3: task.Updated}

// isPlain says that a task depends on no other task, and on no time but when it is due.
func isPlain(s *task.Spec) bool { return s.Unique == nil && s.Limit == nil && s.ExpiresAt.IsZero() }

// The bytes that PLAIN and ASKED of new.lua read.
const plainSize, askedSize = 2 + 1 + 2*8 + 4, plainSize + 8 + 2 + 2*8 + 1 + 4 + 2 + 16

// enqueueArgs names each sub-queue and each limit of a batch once.
func (q tasks) enqueueArgs(specs []task.Spec) args {
	var (
		subs, limits    = newNames(), newNames()
		names, declared args
		tasks           = make(args, 0, 2*len(specs))
		room            = make([]byte, 0, askedSize*len(specs))
	)
	for i := range specs {
		s := &specs[i]
		sub, fresh := subs.index(subQueueName(s.Queue, s.Kind))
		if fresh {
			names = append(names, subQueueName(s.Queue, s.Kind))
		}
		limit := 0
		if s.Limit != nil {
			h := s.Limit.Hash(s.Kind)
			key := hex.EncodeToString(h[:])
			if limit, fresh = limits.index(key); fresh {
				declared = append(declared, key, s.Limit.Key)
			}
		}
		from := len(room)
		room = appendAsked(room, s, sub, limit)
		tasks = append(tasks, room[from:len(room):len(room)], packSpec(s))
	}
	a := q.newArgs(5 + len(names) + len(declared) + len(tasks))
	a = append(a, freshID(), q.layout, q.maxTTL.Load(), len(names), len(declared)/2)
	return append(append(append(a, names...), declared...), tasks...)
}

// names numbers words from 1.
type names map[string]int

func newNames() names { return make(names, 1) }

func (n names) index(word string) (i int, fresh bool) {
	i, found := n[word]
	if !found {
		i = len(n) + 1
		n[word] = i
	}
	return i, !found
}

func appendAsked(b []byte, s *task.Spec, sub, limit int) []byte {
	le := binary.LittleEndian
	b = append(le.AppendUint16(b, uint16(sub)), byte(int8(s.Priority)))
	b = appendDouble(appendDouble(b, micros(s.RunAt)), s.Delay.Microseconds())
	b = le.AppendUint32(b, uint32(s.CrashBudget()))
	if isPlain(s) {
		return b
	}
	b = appendDouble(b, micros(s.ExpiresAt))
	var unique, again, contention byte
	var key task.Hash
	var window, longest time.Duration
	if u := s.Unique; u != nil {
		unique, key, window, longest = 1, u.Hash(s.Kind), u.Window, u.Longest(s.Delay)
		if u.Until == task.UntilStarted {
			unique = 2
		}
		again = map[task.Again]byte{task.Replace: 1, task.Debounce: 2}[u.Again]
	}
	b = append(b, unique, again)
	b = appendDouble(appendDouble(b, window.Microseconds()), longest.Microseconds())
	slots := 0
	if l := s.Limit; l != nil {
		contention, slots = 1, l.Slots()
		switch l.OnContention {
		case task.Discard:
			contention = 2
		case task.Displace:
			contention = 3
		}
	}
	b = le.AppendUint16(le.AppendUint32(append(b, contention), uint32(slots)), uint16(limit))
	if unique > 0 {
		b = append(b, key[:]...)
	}
	return b
}

func appendDouble(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

// The answers to Fetch beside 1.
const fetchLate, fetchGone = 2, 3

// Fetch asks one script for tasks, and unpacks them.
func (q tasks) Fetch(ctx context.Context, f driver.FetchRequest) (driver.Fetch, error) {
	a := q.newArgs(8 + len(f.Kinds) + len(f.Queues))
	a = append(a, string(f.Worker.Key), hold(f.Worker), micros(f.NotAfter), min(f.Max, 1000), flag(f.Suspects), flag(f.Crashers), f.Bytes, len(f.Kinds))
	for _, names := range [][]string{f.Kinds, f.Queues} {
		for _, name := range names {
			a = append(a, name)
		}
	}
	r, err := q.run(ctx, "fetch", fetchScript, a)
	if err != nil {
		return driver.Fetch{}, err
	}
	out := driver.Fetch{Now: r.time(0), NextDue: r.time(2), Late: r.int(1) == fetchLate, Gone: r.int(1) == fetchGone}
	if len(r) < 5 {
		return out, nil
	}
	subs := r.list(3).named()
	out.Tasks = make([]driver.Fetched, 0, (len(r)-4)/3)
	for i := 4; i+2 < len(r); i += 3 {
		w := parseRow(r.text(i + 1))
		spec, err := parseSpec(r.text(i+2), w, subs[w.sub])
		damage := ""
		if err != nil {
			damage = "its spec cannot be read: " + err.Error()
		}
		out.Tasks = append(out.Tasks, driver.Fetched{Damage: damage,
			Ref: driver.Ref{ID: task.ID(r.int(i)), Token: w.token}, Spec: spec, Enqueued: w.enqueued,
			Attempts: w.attempts, Crashes: w.crashes, Snoozes: w.snoozes, Granted: w.granted, Suspect: w.suspect,
		})
	}
	return out, nil
}

// named reads a list of numbers with a name each.
func (r reply) named() map[uint32]string {
	m := make(map[uint32]string, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		m[uint32(r.int(i))] = r.text(i + 1)
	}
	return m
}

func (q tasks) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	return statuses(refs, func(refs []driver.Ref) (reply, error) {
		a := append(q.newArgs(2+2*len(refs)), string(worker.Key), hold(worker))
		for _, ref := range refs {
			a = append(a, int64(ref.ID), int64(ref.Token))
		}
		return q.run(ctx, "start tasks", startTasksScript, a)
	})
}

func (q tasks) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	return statuses(ends, func(ends []driver.Completion) (reply, error) {
		a := append(q.newArgs(2+4*len(ends)), string(worker.Key), hold(worker))
		for _, c := range ends {
			a = append(a, int64(c.ID), packEnd(c), c.Outcome, c.Error)
		}
		return q.run(ctx, "finish", finishScript, a)
	})
}

// packEnd is what finish.lua's ENDED reads.
func packEnd(c driver.Completion) []byte {
	reason := c.Reason[:min(len(c.Reason), math.MaxUint16)]
	b := make([]byte, 0, 4*8+1+2+len(reason))
	b = append(appendDouble(b, int64(c.Token)), byte(c.Verdict))
	for _, us := range []int64{c.Delay.Microseconds(), micros(c.Started), micros(c.Ended)} {
		b = appendDouble(b, us)
	}
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(reason))), reason...)
}

// statuses carries out a batch whose answer is one number for each item.
func statuses[T any](items []T, do func([]T) (reply, error)) ([]driver.Status, error) {
	out := make([]driver.Status, 0, len(items))
	err := inBatches(items, func(items []T) error {
		r, err := do(items)
		if err != nil {
			return err
		}
		for i := range items {
			out = append(out, driver.Status(r.int(1+i)))
		}
		return nil
	})
	return out, err
}

// Running looks at some at a time; one may be met twice meanwhile.
func (q tasks) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	var out []driver.RunningTask
	met := map[driver.Ref]bool{}
	for at := "0"; ; {
		r, err := q.run(ctx, "read own tasks", runningScript, append(q.newArgs(3), hold(worker), flag(asked), at))
		if err != nil {
			return nil, err
		}
		for i := 2; i+2 < len(r); i += 3 {
			ref := driver.Ref{ID: task.ID(r.int(i)), Token: lease.Token(r.int(i + 1))}
			if !met[ref] {
				met[ref] = true
				out = append(out, driver.RunningTask{Ref: ref, Stop: r.text(i + 2)})
			}
		}
		if at = r.text(1); at == "0" {
			return out, nil
		}
	}
}

// countField is a counter's name within its minute.
func countField(c driver.Count) string { return subQueueName(c.Queue, c.Kind) + "\x1f" + c.Name }

func (q tasks) Count(ctx context.Context, counts []driver.Count) error {
	return inBatches(counts, func(counts []driver.Count) error {
		a := q.newArgs(3 * len(counts))
		for _, c := range counts {
			a = append(a, micros(c.Minute.Truncate(time.Minute)), countField(c), c.N)
		}
		_, err := q.run(ctx, "count", countScript, a)
		return err
	})
}

// Declare replaces the rates of kinds, a batch of them at a time.
func (q tasks) Declare(ctx context.Context, rates map[string]task.Rate) error {
	return inBatches(slices.Sorted(maps.Keys(rates)), func(kinds []string) error {
		a := q.newArgs(5 * len(kinds))
		for _, kind := range kinds {
			r, each := rates[kind], int64(0)
			if r.Count > 0 && r.Per > 0 {
				each = max((r.Per / time.Duration(r.Count)).Microseconds(), 1)
			}
			a = append(a, kind, strconv.FormatInt(each, 10), r.Bursts(), r.Count, r.Window().Microseconds())
		}
		_, err := q.run(ctx, "declare rates", declareScript, a)
		return err
	})
}

// Watch hears of a queue when somebody enqueues for an idle worker, so it marks the queues as watched by one.
func (q tasks) Watch(ctx context.Context, queues []string) (<-chan struct{}, error) {
	names := make([]string, len(queues))
	for i, name := range queues {
		names[i] = "work:" + name
	}
	c, err := q.notify.watch(ctx, names)
	if err != nil || len(queues) == 0 {
		return c, err
	}
	if err := q.client.SAdd(ctx, q.prefix+"idle", queues).Err(); err != nil {
		return nil, q.wrap("watch", err)
	}
	return c, nil
}

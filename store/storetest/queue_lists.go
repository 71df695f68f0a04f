package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var listPromises = []promise{
	{"tasks are listed by what they are, with a cursor", listTasks},
	{"sub-queues tell their depth, and the age of the oldest", subs},
	{"workers that live are listed with what they have", listWorkers},
	{"a task that is not there is not there", noTask},
	{"counters are sums over the minutes that are asked for", counting},
	{"counters are kept for a week", countsKept},
	// Holds: promise 21.
	{"what the store itself ends is counted", countedEnds},
	{"whoever watches a queue hears of what becomes available", watched},
}

func listTasks(w *world) {
	var all []task.ID
	for i := range 130 {
		s := task.Spec{Queue: fmt.Sprint("q", i%2), Kind: fmt.Sprint("k", i%3), Unique: &task.Unique{Key: fmt.Sprint("u", i/2), Shared: i%2 == 1}}
		s.Limit = &task.Limit{Key: fmt.Sprint("l", i%5), Shared: i%4 == 0, Max: 1000}
		s.Tags = []string{fmt.Sprint("t", i%7), "all"}
		if i%4 == 3 {
			s.Delay = time.Hour
		}
		all = append(all, w.add1(s))
	}
	check := func(what string, f driver.Filter, is func(i int) bool) {
		w.Helper()
		var want, got []task.ID
		for i, id := range all {
			if is(i) && id > f.After && (f.UpTo == 0 || id <= f.UpTo) && len(want) < f.Rows() {
				want = append(want, id)
			}
		}
		for _, t := range w.tasks(f) {
			got = append(got, t.ID)
		}
		w.order(what, got, want)
	}
	any := func(int) bool { return true }
	check("nothing asked for", driver.Filter{}, any)
	check("more than there are", driver.Filter{Max: 1000}, any)
	check("one", driver.Filter{Max: 1}, any)
	check("a queue", driver.Filter{Queue: "q1"}, func(i int) bool { return i%2 == 1 })
	check("a kind", driver.Filter{Kind: "k2"}, func(i int) bool { return i%3 == 2 })
	check("a tag", driver.Filter{Tag: "t3"}, func(i int) bool { return i%7 == 3 })
	check("a unique key of any scope", driver.Filter{Unique: "u3"}, func(i int) bool { return i/2 == 3 })
	check("a limit of any scope", driver.Filter{Limit: "l0"}, func(i int) bool { return i%5 == 0 })
	check("a state", driver.Filter{States: []task.State{task.Scheduled}}, func(i int) bool { return i%4 == 3 })
	check("two states", driver.Filter{Max: 1000, States: []task.State{task.Scheduled, task.Available}}, any)
	check("a state that is none", driver.Filter{States: []task.State{"runing"}}, func(int) bool { return false })
	check("a state that is none beside one that is", driver.Filter{States: []task.State{"runing", task.Scheduled}}, func(i int) bool { return i%4 == 3 })
	check("a state that none has", driver.Filter{States: []task.State{task.Crashed}}, func(int) bool { return false })
	check("everything at once", driver.Filter{Queue: "q1", Kind: "k0", Tag: "all", Limit: "l3", States: []task.State{task.Scheduled}},
		func(i int) bool { return i%2 == 1 && i%3 == 0 && i%5 == 3 && i%4 == 3 })
	check("after one", driver.Filter{After: all[99]}, any)
	check("after the last", driver.Filter{After: all[129]}, any)
	check("up to one", driver.Filter{UpTo: all[9]}, any)
	check("between, of a kind", driver.Filter{After: all[9], UpTo: all[99], Kind: "k1", Max: 10}, func(i int) bool { return i%3 == 1 })
	var paged []task.ID
	for f := (driver.Filter{Max: 7}); ; {
		page := w.tasks(f)
		for _, t := range page {
			paged = append(paged, t.ID)
			f.After = t.ID
		}
		if len(page) < 7 {
			break
		}
	}
	w.order("page by page", paged, all)
}

func subs(w *world) {
	worker := w.worker(w.s)
	now := w.now(w.s)
	of := func(q, kind string, at time.Time) task.ID {
		return w.add1(task.Spec{Queue: q, Kind: kind, RunAt: at})
	}
	of("b", "y", now.Add(-time.Minute))
	old := now.Add(-time.Hour).Truncate(time.Second)
	of("b", "x", now.Add(time.Hour))
	of("b", "y", old)
	of("b", "y", now.Add(time.Hour))
	failed := of("a", "z", old)
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"a"}}).Tasks
	w.order("Fetch", ids(got), []task.ID{failed})
	w.done(worker, got[0].Ref, driver.Fail)
	w.add1(task.Spec{Queue: "a", Kind: "l", RunAt: old, Limit: &task.Limit{Key: "l"}})
	second := w.add1(task.Spec{Queue: "a", Kind: "l", RunAt: now, Limit: &task.Limit{Key: "l"}})
	w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"a"}})
	w.pauseQueue(driver.Pause{Queue: "c", Kind: "p"})

	subs, err := w.process().Tasks.Queues(w.ctx)
	w.check("Queues", err)
	want := []driver.SubQueue{
		{Queue: "a", Kind: "l", Depth: map[task.State]int{task.Running: 1, task.Blocked: 1}, Oldest: w.task(second).RunAt},
		{Queue: "a", Kind: "z", Depth: map[task.State]int{task.Failed: 1}},
		{Queue: "b", Kind: "x", Depth: map[task.State]int{task.Scheduled: 1}},
		{Queue: "b", Kind: "y", Depth: map[task.State]int{task.Available: 2, task.Scheduled: 1}, Oldest: old},
		{Queue: "c", Kind: "p"},
	}
	if len(subs) != len(want) {
		w.Fatalf("Queues: %+v", subs)
	}
	for i, l := range subs {
		equal(w, "queue", l.Queue, want[i].Queue)
		equal(w, "kind", l.Kind, want[i].Kind)
		for _, s := range task.States {
			equal(w, fmt.Sprintf("tasks of %s, %s that are %s", l.Queue, l.Kind, s), l.Depth[s], want[i].Depth[s])
		}
		if !l.Oldest.Equal(want[i].Oldest) {
			w.Errorf("the oldest of %s, %s: got %v, want %v", l.Queue, l.Kind, l.Oldest, want[i].Oldest)
		}
	}
}

func listWorkers(w *world) {
	join := func(host string, pid int) driver.Process {
		ref := w.server(w.s)
		v := driver.Process{Lease: ref, Host: host, PID: pid, Queues: []string{"q", "ß"}, Kinds: []string{"k"}, Slots: pid}
		w.check("Join", w.s.Queue.Register(w.ctx, v))
		return v
	}
	before := w.now(w.s)
	b, a2, a1, dead := join("b", 1), join("a", 2), join("a", 1), join("a", 0)
	w.add(some(), some(), some())
	w.fetch(a2.Lease, 2)
	w.fetch(dead.Lease, 1)
	w.lapse(w.s, dead.Lease)
	got := w.workers()
	if len(got) != 3 {
		w.Fatalf("Workers: %+v", got)
	}
	for i, want := range []driver.Process{a1, a2, b} {
		g := got[i]
		equal(w, "lease", g.Lease, want.Lease)
		equal(w, "host", g.Host, want.Host)
		equal(w, "pid", g.PID, want.PID)
		equal(w, "slots", g.Slots, want.Slots)
		equal(w, "queues", fmt.Sprint(g.Queues), fmt.Sprint(want.Queues))
		equal(w, "kinds", fmt.Sprint(g.Kinds), fmt.Sprint(want.Kinds))
		equal(w, "running", g.Running, map[int]int{1: 2}[i])
		between(w, "since", before, g.Since, w.now(w.s))
	}
	a1.Queues, a1.Kinds, a1.Slots = []string{"z"}, nil, 99
	w.check("Join again", w.s.Queue.Register(w.ctx, a1))
	again := w.workers()
	if len(again) != 3 || again[0].Slots != 99 || len(again[0].Kinds) != 0 || fmt.Sprint(again[0].Queues) != "[z]" || !again[0].Since.Equal(got[0].Since) {
		w.Errorf("Workers after one changed: %+v", again)
	}
}

func noTask(w *world) {
	id := w.add1(some())
	for _, none := range []task.ID{0, -1, id + 1, 1 << 52} {
		if _, _, ok := w.find(none); ok {
			w.Errorf("there is a task %d", none)
		}
	}
	_, held, _ := w.find(id)
	equal(w, "who holds the slots of a task without a limit", len(held.Running)+held.Max+held.Waiting, 0)
}

// counted sums counters by queue, kind and name.
func (w *world) counted(from, to time.Time) map[string]int64 {
	w.Helper()
	counts, err := w.s.Tasks.Counts(w.ctx, from, to)
	w.check("Counts", err)
	sums := map[string]int64{}
	for _, c := range counts {
		sums[c.Queue+" "+c.Kind+" "+c.Name] += c.N
	}
	return sums
}

func counting(w *world) {
	minute := w.now(w.s).Truncate(time.Minute).Add(-10 * time.Minute)
	of := func(m int, q, kind, name string, n int64) driver.Count {
		return driver.Count{Minute: minute.Add(time.Duration(m) * time.Minute), Queue: q, Kind: kind, Name: name, N: n}
	}
	w.check("Count", w.s.Queue.Count(w.ctx, []driver.Count{of(0, "q", "k", "enqueued", 1), of(1, "q", "k", "enqueued", 10),
		of(1, "q", "k", "wait:8", 5), of(1, "q", "K", "enqueued", 7), of(1, "q", "k", "enqueued", 20), of(2, "q", "k", "enqueued", 100)}))
	w.check("Count nothing", w.s.Queue.Count(w.ctx, nil))
	other := w.process()
	together(8, func(int) {
		if err := other.Queue.Count(w.ctx, []driver.Count{of(1, "q", "k", "enqueued", 1000), of(3, "ß", "k", "x", 1<<33)}); err != nil {
			w.Errorf("Count: %v", err)
		}
	})
	got := w.counted(minute.Add(time.Minute), minute.Add(2*time.Minute))
	for name, n := range map[string]int64{"q k enqueued": 8030, "q k wait:8": 5, "q K enqueued": 7} {
		equal(w, name, got[name], n)
	}
	equal(w, "counters of one minute", len(got), 3)
	equal(w, "over all minutes", w.counted(minute, minute.Add(10*time.Minute))["q k enqueued"], 8131)
	equal(w, "of large numbers", w.counted(minute, minute.Add(10*time.Minute))["ß k x"], 8<<33)
	equal(w, "of no minute", len(w.counted(minute, minute)), 0)
}

// countsKept: maintenance forgets no count of the last seven days.
func countsKept(w *world) {
	now := w.now(w.s).Truncate(time.Minute)
	const day = 24 * time.Hour
	var counts []driver.Count
	for name, age := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": day, "week": 7*day - 10*time.Minute, "older": 8 * day} {
		counts = append(counts, driver.Count{Minute: now.Add(-age), Queue: "q", Kind: "k", Name: name, N: 1})
	}
	w.check("Count", w.s.Queue.Count(w.ctx, counts))
	for range 10 {
		w.maintain()
	}
	got := w.counted(now.Add(-9*day), now.Add(time.Minute))
	for _, name := range []string{"minute", "hour", "day", "week"} {
		equal(w, "the count of a "+name+" ago", got["q k "+name], 1)
	}
}

func countedEnds(w *world) {
	from := w.now(w.s).Truncate(time.Minute)
	worker := w.worker(w.s)
	expiring, overlap := some(), limited("l", 1)
	expiring.ExpiresAt = w.now(w.s).Add(10 * time.Millisecond)
	w.add1(expiring)
	w.until(expiring.ExpiresAt)
	w.maintain()
	overlap.Limit.OnContention = task.Discard
	w.fetch1(worker, w.add1(overlap))
	w.add1(overlap)
	w.fetches("Fetch", worker, 10)
	w.acted(driver.OpDiscard, w.add1(some()), driver.Done)
	w.acted(driver.OpCancel, w.add1(some()), driver.Done)
	poison := some()
	poison.MaxCrashes = 1
	w.suspects(1, poison)
	worker = w.worker(w.s)
	equal(w, "Start", w.begin(worker, w.fetch(worker, 1)[0].Ref), driver.OK)
	equal(w, "crashed", w.dies(worker).Crashed, 1)
	got := w.counted(from, w.now(w.s).Add(time.Minute))
	for name, n := range map[string]int64{
		counters.Discarded + ":" + task.ReasonExpired: 1, counters.Discarded + ":" + task.ReasonOverlap: 1,
		counters.Discarded + ":" + task.ReasonOperator: 1, counters.Canceled: 1, counters.Rescued: 1, counters.Crashed: 1,
	} {
		equal(w, name, got["q k "+name], n)
	}
}

func watched(w *world) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	hints, err := w.s.Queue.Watch(ctx, []string{"q", "other"})
	w.check("Watch", err)
	if hints == nil {
		w.Skip("it cannot tell")
	}
	heard := func(what string) {
		w.Helper()
		select {
		case <-hints:
		case <-time.After(20 * time.Second):
			w.Fatalf("nothing was heard of %s", what)
		}
	}
	quiet := func() { // hints of what came before may still be under way
		for {
			select {
			case <-hints:
			case <-time.After(150 * time.Millisecond):
				return
			}
		}
	}
	first := w.enqueue(w.process(), limited("l", 1))[0].ID
	heard("a task")
	second := w.add1(limited("l", 1))
	worker := w.worker(w.s)
	f := w.fetch1(worker, first)
	quiet()
	w.done(worker, f.Ref, driver.Success)
	heard("a freed slot")
	w.fetch1(worker, second)
	quiet()
	w.enqueue(w.s, task.Spec{Queue: "other", Kind: "k"})
	heard("a task of the other queue")
}

package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var listPromises = []promise{
	{"tasks are listed by what they are, in either order, with a cursor", listTasks},
	{"tasks are listed that ended or were enqueued since an instant", listSince},
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
			if is(i) && id > f.After && (f.Before == 0 || id < f.Before) {
				want = append(want, id)
			}
		}
		if f.Newest {
			slices.Reverse(want)
		}
		want = want[:min(len(want), f.Rows())]
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
	check("before one", driver.Filter{Before: all[10]}, any)
	check("before the first", driver.Filter{Before: 1}, any)
	check("between, of a kind", driver.Filter{After: all[9], Before: all[100], Kind: "k1", Max: 10}, func(i int) bool { return i%3 == 1 })
	check("the newest", driver.Filter{Newest: true}, any)
	check("the newest one", driver.Filter{Newest: true, Max: 1}, any)
	check("the newest of a tag", driver.Filter{Newest: true, Tag: "t3"}, func(i int) bool { return i%7 == 3 })
	check("the newest of a state", driver.Filter{Newest: true, States: []task.State{task.Scheduled}, Max: 20}, func(i int) bool { return i%4 == 3 })
	check("the newest of a queue and a kind", driver.Filter{Newest: true, Queue: "q1", Kind: "k0", Max: 5}, func(i int) bool { return i%2 == 1 && i%3 == 0 })
	check("the newest between", driver.Filter{Newest: true, After: all[9], Before: all[100], Max: 10}, any)
	check("the newest before the first", driver.Filter{Newest: true, Before: all[0]}, any)
	w.order("page by page", w.pages(driver.Filter{Max: 7}), all)
	w.order("page by page, of two states", w.pages(driver.Filter{Max: 7, States: []task.State{task.Scheduled, task.Available}}), all)
	slices.Reverse(all)
	w.order("page by page, the newest first", w.pages(driver.Filter{Max: 7, Newest: true}), all)
	w.order("page by page, the newest of two states first", w.pages(driver.Filter{Max: 7, Newest: true, States: []task.State{task.Scheduled, task.Available}}), all)
	w.order("page by page of all, the newest first", w.pages(driver.Filter{Max: 130, Newest: true}), all)
}

// pages lists to the end, page by page.
func (w *world) pages(f driver.Filter) (all []task.ID) {
	w.Helper()
	for {
		page := w.tasks(f)
		for _, t := range page {
			all = append(all, t.ID)
			f = f.Past(t.ID)
		}
		if len(page) < f.Rows() {
			return all
		}
	}
}

// listSince has tasks of all sorts end and be enqueued before an instant, and after it.
func listSince(w *world) {
	worker := w.worker(w.s)
	verdicts := []driver.Verdict{driver.Success, driver.Fail, driver.Cancel}
	var old, late []task.ID // what ended or was enqueued before, and since
	end := func(i int, id task.ID) {
		if i == len(verdicts) {
			w.acted(driver.OpDiscard, id, driver.Done)
			return
		}
		first := w.fetch(worker, 1)
		w.order("Fetch", ids(first), []task.ID{id})
		w.done(worker, first[0].Ref, verdicts[i])
	}
	const each = 4 // of each final state: those of the verdicts, and discarded
	var ended, ending []task.ID
	for range 2 {
		for i := range each {
			s := some()
			if i == 0 {
				s.Unique = &task.Unique{Key: fmt.Sprint("u", len(ended)), Window: time.Hour}
			}
			id := w.add1(s)
			ended = append(ended, id)
			end(i, id)
		}
	}
	for range each {
		ending = append(ending, w.add1(some()))
	}
	later := task.Spec{Queue: "q", Kind: "k", Delay: time.Hour}
	open := []task.ID{w.add1(later), w.add1(task.Spec{Queue: "other", Kind: "k"})}
	since := w.now(w.s).Add(time.Millisecond)
	w.until(since)
	for i, id := range ending {
		end(i, id)
	}
	late = append(late, ending...)
	for i := range each {
		id := w.add1(some())
		end(i, id)
		late = append(late, id)
	}
	late = append(late, w.add1(later), w.add1(task.Spec{Queue: "other", Kind: "k"}))
	running := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"other"}}).Tasks // enqueued before
	equal(w, "fetched", running[0].Ref.ID, open[1])
	old = append(append(old, ended...), open...)

	of := func(ids []task.ID, states ...task.State) (some []task.ID) {
		for _, id := range ids {
			if t := w.task(id); len(states) == 0 || slices.Contains(states, t.State) {
				some = append(some, id)
			}
		}
		return some
	}
	all := append(slices.Clone(old), late...)
	slices.Sort(all)
	for _, states := range [][]task.State{nil, {task.Failed}, {task.Succeeded}, {task.Failed, task.Crashed, task.Discarded}, {task.Canceled, task.Available},
		{task.Scheduled}, {task.Running}, {task.Available, task.Running, task.Scheduled, task.Succeeded}} {
		for _, newest := range []bool{false, true} {
			was, is := of(all, states...), of(late, states...)
			if newest {
				slices.Reverse(was)
				slices.Reverse(is)
			}
			f := driver.Filter{States: states, Newest: newest, Max: 3}
			what := fmt.Sprint("tasks that are ", states, ", newest first: ", newest)
			w.order(what, w.pages(f), was)
			f.Since = since
			w.order(what+", since", w.pages(f), is)
			f.Since = since.Add(-time.Hour)
			w.order(what+", since long ago", w.pages(f), was)
			f.Since = since.Add(time.Hour)
			w.order(what+", since later", w.pages(f), nil)
		}
	}
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

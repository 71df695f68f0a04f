package upgrade

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

// goesOn uses what a fixture has: tokens grow, a tick that was claimed is not claimed again, keys are taken, pauses
// hold, and the tasks of dead workers run.
func (s Subject) goesOn(t *testing.T, st *store.Store) {
	t.Helper()
	ctx := t.Context()
	before := s.read(t, st)
	var old lease.Record
	for _, r := range before.Leases {
		if r.Key == heldKey {
			old = r
		}
	}
	c, err := dibs.New(st, dibs.Options{App: "shop", Logger: slog.New(slog.DiscardHandler), Queues: []string{mail, closed}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	err = c.Do(ctx, string(heldKey), func(_ context.Context, l *lease.Lease) error {
		if l.Token() <= old.Token {
			t.Errorf("the token of %s is %d, and was %d", heldKey, l.Token(), old.Token)
		}
		server := lease.Ref{Key: heldKey, Owner: l.Ref().Owner, Token: l.Ref().Token}
		for _, k := range before.Ticks {
			a, err := st.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: k.Job, At: k.At, Lease: server, Ahead: time.Hour}})
			if err != nil || a[0].Status == tick.Won {
				t.Errorf("a tick that has a row is claimed again: %+v, %v", a, err)
			}
		}
		return nil
	}, dibs.LockOptions{Wait: time.Minute})
	if err != nil {
		t.Errorf("the lock of a dead process: %v", err)
	}

	second := task.Spec{Queue: mail, Kind: "unique", Unique: &task.Unique{Key: uniqueKey, Shared: true}}
	if e, err := c.Enqueue(ctx, second); err != nil || e.Answer != task.Duplicate {
		t.Errorf("a second task with the key: %+v, %v", e, err)
	}

	var mu sync.Mutex
	worked := map[task.ID]int{}
	want, kinds := map[task.ID]bool{}, map[string]bool{}
	for _, x := range before.Tasks {
		due := x.State == task.Available || x.State == task.Blocked || x.State == task.Running
		if due && x.Queue == mail {
			want[x.ID] = true
		}
		kinds[x.Kind] = true
	}
	for kind := range kinds {
		err := dibs.Handle(c, dibs.Define[any](kind), func(_ context.Context, r *dibs.Task, _ any) error {
			mu.Lock()
			defer mu.Unlock()
			worked[r.ID]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ends := start(t, c)
	eventually(t, "all tasks that were due to end", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(worked) >= len(want)
	})
	ends()
	for id, n := range worked {
		if !want[id] || n != 1 {
			t.Errorf("task %d ran %d times; due: %v", id, n, want[id])
		}
	}
}

// start runs a client, and returns how to end it.
func start(t *testing.T, c *dibs.Client) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(end)
	return end
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// fleet is servers of several versions, with one job and one kind of task.
type fleet struct {
	*testing.T
	mu    sync.Mutex
	ticks map[time.Time][]string // which server ran it
	tasks map[task.ID][]string
}

var sent = dibs.Define[int]("sent")

// everyTick has each tick run, however late on a busy machine.
var everyTick = dibs.CronOptions{Concurrency: job.Allow, CatchUp: job.CatchUpAll, StartingDeadline: time.Minute}

// server starts a server with a store of its own, and says how to end it.
func (f *fleet) server(name string, open func(context.Context, store.Config) (*store.Store, error), c store.Config) (*dibs.Client, *store.Store, func()) {
	f.Helper()
	st := opened(f.T, open, c)
	d, err := dibs.New(st, dibs.Options{App: "rolling", Logger: slog.New(slog.DiscardHandler), Queues: []string{"rolling"}, Slots: 4})
	if err != nil {
		f.Fatal(err)
	}
	err = d.Cron("beat", "* * * * * *", func(_ context.Context, k dibs.Tick) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ticks[k.At] = append(f.ticks[k.At], name)
		return nil
	}, everyTick)
	if err == nil {
		err = dibs.Handle(d, sent, func(_ context.Context, r *dibs.Task, _ int) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.tasks[r.ID] = append(f.tasks[r.ID], name)
			return nil
		})
	}
	if err != nil {
		f.Fatal(err)
	}
	end := start(f.T, d)
	return d, st, func() { end(); d.Close() }
}

// rolling: while a fleet is upgraded server by server, each tick and each task runs once.
func (s Subject) rolling(t *testing.T, dir string) {
	f := &fleet{T: t, ticks: map[time.Time][]string{}, tasks: map[task.ID][]string{}}
	c := s.restored(t, dir)
	c.Init = true
	older, _, endOlder := f.server("older", s.Open, c)
	c.Init = false

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	enqueued := map[task.ID]bool{}
	produce := func(ctx context.Context, d *dibs.Client) {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				spec := sent.Spec(n)
				spec.Queue = "rolling"
				if e, err := d.Enqueue(context.WithoutCancel(ctx), spec); err != nil {
					t.Errorf("enqueue: %v", err)
				} else {
					f.mu.Lock()
					enqueued[e.ID] = true
					f.mu.Unlock()
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	first, stopFirst := context.WithCancel(ctx)
	produce(first, older)
	f.goesOn("the older server", 1, "older")

	// The upgrade, beside the older server.
	c.Init = true
	next := s.Next(1)
	_ = s.read(t, opened(t, next, c))
	c.Init = false
	f.goesOn("the older server after the upgrade", 1, "older")
	newer, st, endNewer := f.server("newer", next, c)
	produce(ctx, newer)
	f.goesOn("both", 2, "older", "newer")
	stopFirst()
	endOlder()
	f.goesOn("the newer server alone", 1, "newer")
	_, _, endAgain := f.server("older again", s.Open, c) // restarted, or rolled back
	f.goesOn("both again", 2, "older again", "newer")
	stop()
	wg.Wait()
	endNewer()
	f.all(st, enqueued)
	eventually(t, "a tick of the older server that was started again", func() bool { return f.ran("older again") >= 1 })
	eventually(t, "every tick", f.whole)
	endAgain()
	f.judge(st, enqueued)
}

// goesOn waits until so many more ticks have run, and more tasks by each of these servers.
func (f *fleet) goesOn(what string, ticks int, names ...string) {
	f.Helper()
	count := func() (all int, tasks map[string]int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		tasks = map[string]int{}
		for _, by := range f.tasks {
			tasks[by[0]]++
		}
		return len(f.ticks), tasks
	}
	before, done := count()
	eventually(f.T, what, func() bool {
		now, doing := count()
		return now >= before+ticks && !slices.ContainsFunc(names, func(name string) bool { return doing[name] == done[name] })
	})
}

// ran is how many ticks a server ran.
func (f *fleet) ran(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, by := range f.ticks {
		for _, b := range by {
			if b == name {
				n++
			}
		}
	}
	return n
}

// all waits until each task ran, and says of one that does not what has become of it.
func (f *fleet) all(st *store.Store, enqueued map[task.ID]bool) {
	f.Helper()
	missing := func() (ids []task.ID) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for id := range enqueued {
			if len(f.tasks[id]) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for end := time.Now().Add(time.Minute); len(missing()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().Before(end) {
			continue
		}
		for _, id := range missing() {
			x, _, there, err := st.Tasks.Task(context.Background(), id)
			f.Errorf("task %d of %d did not run: it is there: %v, %v; %+v", id, len(enqueued), there, err, x)
		}
		workers, err := st.Tasks.Workers(context.Background())
		f.Fatalf("the workers: %+v, %v", workers, err)
	}
}

// whole says that each tick ran between the first and the last one.
func (f *fleet) whole() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	begin, end := f.span()
	return int(end.Sub(begin)/time.Second)+1 == len(f.ticks)
}

// span is from the first tick to the last one. Call it with the lock held.
func (f *fleet) span() (begin, end time.Time) {
	for at := range f.ticks {
		if begin.IsZero() || at.Before(begin) {
			begin = at
		}
		if at.After(end) {
			end = at
		}
	}
	return begin, end
}

// judge checks what the fleet did, by what the work saw and by what the store says.
func (f *fleet) judge(st *store.Store, enqueued map[task.ID]bool) {
	f.Helper()
	by := map[string]int{}
	begin, end := f.span()
	for at, names := range f.ticks {
		if len(names) != 1 {
			f.Errorf("tick %s ran %d times: %v", at, len(names), names)
		}
		by[names[0]]++
	}
	for at := begin; !at.After(end); at = at.Add(time.Second) {
		if f.ticks[at] == nil {
			f.Errorf("tick %s did not run", at)
		}
	}
	rows, err := st.History.Ticks(context.Background(), history.Query{Job: "rolling/beat", From: begin, To: end.Add(time.Second), Limit: 1000})
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range rows {
		if k.Outcome != run.Succeeded {
			f.Errorf("tick %s: %s %s", k.At, k.Outcome, k.Reason)
		}
	}
	if want := int(end.Sub(begin)/time.Second) + 1; len(rows) != want {
		f.Errorf("the history has %d ticks, want %d", len(rows), want)
	}
	tasks := map[string]int{}
	for id := range enqueued {
		names := f.tasks[id]
		if len(names) != 1 {
			f.Errorf("task %d ran %d times: %v", id, len(names), names)
			continue
		}
		tasks[names[0]]++
	}
	left, err := st.Tasks.Tasks(context.Background(), driver.Filter{Queue: "rolling", States: task.States[:5], Max: 10})
	if err != nil || len(left) > 0 {
		f.Errorf("tasks that have not ended: %v, %v", left, err)
	}
	f.Logf("ticks %v, tasks %v", by, tasks)
	for _, name := range []string{"older", "newer"} {
		if by[name] == 0 || tasks[name] == 0 {
			f.Errorf("%s: %d ticks, %d tasks", name, by[name], tasks[name])
		}
	}
}

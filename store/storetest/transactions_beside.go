package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What others do beside a transaction that stays open, where not only one of them writes at a time.
var besidePromises = []pledge{
	// Holds: promise 22, Q2.
	{"a key that another transaction keeps having is undecided, and the transaction goes on", besideKey},
	// Holds: Q2.
	{"a namespace that nobody made is refused, and the transaction goes on", besideNamespace},
	// Holds: promise 22.
	{"a fetch looks behind what a transaction has", besideFetch},
	{"a fetch looks behind those who cannot displace", besideDisplacing},
	// Holds: promise 22.
	{"an open transaction blocks no limit", besideLimit},
	{"a freed slot passes over what a transaction has", besideLine},
	{"a fetch ends where a transaction has all that comes next", besideNext},
	{"a transaction holds up no batch", besideBatch},
	// Holds: promise 26.
	{"a transaction holds up no rescue of others", func(c *caller) {
		besideRescue(c, func(worker lease.Ref) { c.lapse(c.s, worker) })
	}},
	// Holds: promise 26.
	{"a transaction holds up no leave", func(c *caller) {
		besideRescue(c, func(worker lease.Ref) { c.check("Deregister", c.s.Queue.Deregister(c.ctx, worker)) })
	}},
	{"what runs is held up by no duplicate", besideRun},
	{"an operator is told that a transaction has the task", besideAct},
}

// lockWait is for how long stores wait for a lock (settings.sql of PostgreSQL), or less, and then fail. What is done
// sooner has not waited.
const lockWait = 5 * time.Second

func besideKey(c *caller) {
	first, second := c.open(), c.open()
	id := first.enqueue(keyed("u", ""))[0].ID
	want := func(who string, got []task.Enqueued, err error) task.ID {
		c.Helper()
		if !errors.Is(err, queue.ErrUndecided) {
			c.Errorf("the error of %s: %v, want undecided", who, err)
		}
		if got[0] != (task.Enqueued{Answer: task.Undecided}) || got[1].Answer != task.New || got[2].Answer != task.New {
			c.Errorf("answers to %s: %+v", who, got)
		}
		return got[1].ID
	}
	got, err := queue.EnqueueIn(c.ctx, second.Queue, keyed("u", ""), keyed("v", ""), some())
	other := want("another transaction", got, err)
	second.goesOn()
	client := queue.NewClient(queue.ClientOptions{Store: c.s.Queue})
	defer client.Close()
	got, err = client.EnqueueMany(c.ctx, []task.Spec{keyed("u", ""), keyed("w", ""), some()})
	want("one without a transaction", got, err)
	if e, err := client.Enqueue(c.ctx, keyed("u", "")); !errors.Is(err, queue.ErrUndecided) || e != (task.Enqueued{Answer: task.Undecided}) {
		c.Errorf("a single one: %+v, %v", e, err)
	}
	first.commit()
	second.commit()
	c.duplicate(keyed("u", ""), id, task.Available)
	c.duplicate(keyed("v", ""), other, task.Available)
}

// besideNamespace: a slip of the pen in its name must not be answered "enqueued".
func besideNamespace(c *caller) {
	table, worker := c.table(), c.worker(c.s)
	id := c.add1(some())
	running := c.fetch1(worker, id)
	typo := c.config
	typo.Namespace += "d"
	tx, err := c.Connect(c.T, c.s, typo)(c.ctx)
	c.check("beginning a transaction", err)
	x := transaction{c, tx}
	defer x.Rollback(c.ctx)
	for range 2 {
		x.exec("INSERT INTO " + table + " VALUES ('order')")
		got, err := queue.EnqueueIn(c.ctx, x.Queue, some())
		if err == nil || !strings.Contains(err.Error(), typo.Namespace) || len(got) != 0 {
			c.Errorf("an enqueue into namespace %s: %+v, %v", typo.Namespace, got, err)
		}
		if st, err := x.Queue.Finish(c.ctx, worker, []driver.Completion{{Ref: running.Ref, Verdict: driver.Success}}); err == nil {
			c.Errorf("a completion in namespace %s: %v", typo.Namespace, st)
		}
	}
	x.commit()
	c.rows("after the commit", table, 2)
	equal(c.world, "state of the task", c.task(id).State, task.Running)
}

func besideFetch(c *caller) {
	worker := c.worker(c.s)
	low := some()
	low.Priority = -1
	for i, last := range []task.Spec{some(), low, keyed("", "last")} {
		for j, n := range []int{2, 100} {
			var heads []task.Spec
			for k := range n {
				limit := ""
				if last.Limit != nil {
					limit = fmt.Sprint("l", j, k)
				}
				heads = append(heads, keyed(fmt.Sprint("u", i, j, k), limit))
			}
			all := c.add(heads...)
			id := c.add1(last)
			x := c.open()
			x.enqueue(heads...)
			what := fmt.Sprintf("a fetch behind %d of a transaction's, kind %d", n, i)
			c.finishes(worker, c.fetches(what, worker, 1, id)...)
			x.commit()
			c.finishes(worker, c.fetches("the others after the commit", worker, 200, all...)...)
		}
	}
}

func besideDisplacing(c *caller) {
	worker := c.worker(c.s)
	var displacing []task.Spec
	for i := range 8 {
		s := limited(fmt.Sprint("l", i), 1)
		s.Limit.OnContention = task.Displace
		displacing = append(displacing, s)
	}
	running := c.fetches("the first of each", worker, 10, c.add(displacing...)...)
	x := c.open()
	x.finish(worker, driver.OK, running...)
	c.add(displacing...)
	last := c.add1(keyed("", "last"))
	c.fetches("a fetch beside the transaction", worker, 1, last)
	x.rollback()
	c.fetches("a fetch after the rollback", worker, 10)
	asked, err := c.s.Queue.Running(c.ctx, worker, true)
	c.check("Mine", err)
	equal(c.world, "tasks that are asked to stop", len(asked), len(running))
}

// besideLimit: a transaction that stays open holds no lock on a limit (rule Q5).
func besideLimit(c *caller) {
	worker := c.worker(c.s)
	all := c.add(limited("l", 2), limited("l", 2), limited("l", 2), limited("l", 2))
	f := c.fetches("under the limit", worker, 10, all[:2]...)
	x := c.open()
	x.finish(worker, driver.OK, f[0])
	x.enqueue(limited("l", 2))
	c.fetches("before anybody has ended", worker, 10)
	c.finishes(worker, f[1])
	c.fetches("in the slot that was freed beside the transaction", worker, 10, all[2])
	x.commit()
	c.fetches("in the slot that the transaction freed", worker, 10, all[3])
	equal(c.world, "repairs", c.maintain().Repaired, 0)
}

// besideLine: who ends is held up by none of those who would come next; the one behind them does, and they come
// after him.
func besideLine(c *caller) {
	worker := c.worker(c.s)
	for n := range 2 { // behind those that a transaction has
		limit := fmt.Sprint("l", n)
		f := c.fetch1(worker, c.add1(keyed("", limit)))
		two := []task.Spec{keyed(fmt.Sprint("u", n), limit), keyed(fmt.Sprint("v", n), limit)}
		line := c.add(append(two, slices.Repeat([]task.Spec{keyed("", limit)}, n)...)...)
		x := c.open()
		x.enqueue(two...)
		begun := time.Now()
		c.finishes(worker, f)
		if took := time.Since(begun); took >= lockWait {
			c.Errorf("an end took %v", took)
		}
		runs := c.fetches("the one behind those of the transaction", worker, 10, line[2:]...)
		x.commit()
		for _, id := range line[:2] {
			c.finishes(worker, runs...)
			runs = c.fetches("one that the transaction had, in its turn", worker, 10, id)
		}
		c.finishes(worker, runs...)
	}
}

// besideNext: what a fetch cannot do for those of a transaction it leaves to the next one.
func besideNext(c *caller) {
	worker := c.worker(c.s)
	var first, next []task.Spec
	for i := range 60 { // to wait for each of them for a tenth of a second would take too long
		limit := fmt.Sprint("l", i)
		first, next = append(first, keyed("", limit)), append(next, keyed(fmt.Sprint("u", i), limit))
	}
	running := c.fetches("the first of each line", worker, 100, c.add(first...)...)
	line := c.add(next...)
	x := c.open()
	x.enqueue(next...)
	c.finishes(worker, running...)
	begun := time.Now()
	c.fetches("beside the transaction", worker, 100)
	if took := time.Since(begun); took >= lockWait {
		c.Errorf("a fetch took %v", took)
	}
	x.commit()
	var got []task.ID
	for len(got) < len(line) {
		f := c.fetch(worker, 100)
		if len(f) == 0 {
			break
		}
		got = append(got, ids(f)...)
	}
	slices.Sort(got)
	c.order("what was fetched then", got, line)
}

func besideBatch(c *caller) {
	worker := c.worker(c.s)
	c.add(some(), keyed("", "l"), keyed("", "m"), keyed("", "m"))
	f := c.fetch(worker, 10)
	if len(f) != 3 {
		c.Fatalf("Fetch: %v", ids(f))
	}
	x := c.open()
	x.finish(worker, driver.OK, f[1])
	var refs []driver.Ref
	for _, t := range f {
		refs = append(refs, t.Ref)
	}
	if got, err := c.s.Queue.Start(c.ctx, worker, refs); !errors.Is(err, lease.ErrUnavailable) {
		c.Errorf("Start beside the transaction: %v, %v", got, err)
	}
	// A store either says of the whole batch that it has to be repeated, or of each task what became of it.
	got, err := c.s.Queue.Finish(c.ctx, worker, succeeded(f))
	if !errors.Is(err, lease.ErrUnavailable) && (err != nil || !slices.Equal(got, []driver.Status{driver.OK, driver.Withheld, driver.OK})) {
		c.Errorf("Finish beside the transaction: %v, %v", got, err)
	}
	for i, want := range []task.State{task.Succeeded, task.Running, task.Succeeded} {
		equal(c.world, fmt.Sprintf("state of task %d of the batch", i), c.task(f[i].ID).State, want)
	}
	equal(c.world, "tasks that run in the slot that the batch freed", len(c.fetch(worker, 10)), 1)
	x.rollback()
	c.finishes(worker, f...)
}

// besideRun: a transaction whose duplicate runs has no lock on it, also where it would have replaced it.
func besideRun(c *caller) {
	worker := c.worker(c.s)
	for i, again := range []task.Again{"", task.Replace, task.Debounce} {
		key := fmt.Sprint("u", i)
		f := c.fetch1(worker, c.add1(keyed(key, "l")))
		s := keyed(key, "l")
		if again != "" {
			s.Unique.Until, s.Unique.Again, s.Delay = task.UntilStarted, again, time.Minute
		}
		x := c.open()
		equal(c.world, "the answer", x.enqueue(s)[0], task.Enqueued{Answer: task.Duplicate, ID: f.ID, State: task.Running})
		begun := time.Now()
		c.finishes(worker, f)
		if took := time.Since(begun); took >= lockWait {
			c.Errorf("an end took %v", took)
		}
		x.commit()
	}
}

func besideAct(c *caller) {
	id := c.add1(keyed("u", "l"))
	x := c.open()
	x.enqueue(keyed("u", "l"))
	c.acted(driver.OpCancel, id, driver.Busy)
	x.commit()
	c.acted(driver.OpCancel, id, driver.Done)
}

// besideRescue: a transaction has more of a worker's tasks than one step rescues when that is gone. All others are
// rescued.
func besideRescue(c *caller, gone func(worker lease.Ref)) {
	const had, free = 300, 400
	worker := c.worker(c.s)
	c.addMany(had+free, some())
	var got []driver.Fetched
	for n := 0; len(got) < had+free && n < had+free; n++ {
		got = append(got, c.fetch(worker, had+free-len(got))...)
	}
	slices.SortFunc(got, func(x, y driver.Fetched) int { return cmp.Compare(x.ID, y.ID) })
	x := c.open()
	x.finish(worker, driver.OK, got[:had]...)
	gone(worker)
	c.maintain()
	equal(c.world, "still had by the worker", c.states()[task.Running], had)
	x.commit()
	equal(c.world, "crashed", c.maintain().Crashed, 0)
	is := c.states()
	equal(c.world, "done", is[task.Succeeded], had)
	equal(c.world, "given back", is[task.Available], free)
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var joinPromises = []pledge{
	// Holds: promise 22.
	{"an enqueue joins the caller's transaction", joinEnqueue},
	// Holds: Q2.
	{"what a transaction takes in, and what it finds there, is counted with it", joinCounted},
	// Holds: promise 18.
	{"an operator's word on a limit stands above a transaction's", joinSaid},
	// Holds: promise 22.
	{"a completion counts from the commit", joinFinish},
	// Holds: promise 22.
	{"a rollback leaves no trace, no key, no slot", joinRollback},
	{"a savepoint of the caller's takes back what came after it", joinSavepoint},
	// Holds: promise 22.
	{"completion in a transaction is fenced", joinFenced},
	{"a repeated end is known, also when another has the task since", joinRepeated},
	// Holds: promise 22.
	{"nothing joins a transaction that is gone", joinGone},
	{"a call whose time is over leaves the transaction as it was", joinEnded},
	// Holds: promise 22.
	{"a duplicate cannot start before the commit", joinDuplicate},
	// Holds: promise 22.
	{"who wants a key that a transaction has waits for its end, and knows", joinWaits},
	{"a displacement outlives a rollback", joinDisplace},
	// Holds: promise 22.
	{"work and its completion commit together", joinWork},
}

func joinEnqueue(c *caller) {
	table, worker, full := c.table(), c.worker(c.s), c.full()
	x := c.open()
	x.exec("INSERT INTO " + table + " VALUES ('order')")
	got := x.enqueue(some(), full, full)
	if got[0].Answer != task.New || got[1].Answer != task.New || got[2] != (task.Enqueued{Answer: task.Duplicate, ID: got[1].ID, State: task.Available}) {
		c.Errorf("answers: %+v", got)
	}
	equal(c.world, "tasks before the commit", len(c.tasks(driver.Filter{})), 0)
	c.nothing("a fetch before the commit", worker)
	x.commit()
	c.rows("after the commit", table, 1)
	c.same("Task", c.task(got[1].ID).Spec, full)
	tasks := c.fetches("a fetch after the commit", worker, 10, got[0].ID, got[1].ID)
	c.same("Fetch", tasks[1].Spec, full)
	c.finishes(worker, tasks...)
}

// joinCounted: numbers that leave out what is enqueued the natural way would tell nothing.
func joinCounted(c *caller) {
	counts := func() map[string]int64 {
		c.Helper()
		now := c.now(c.s)
		all, err := c.s.Tasks.Counts(c.ctx, now.Add(-time.Hour), now.Add(time.Hour))
		c.check("Counts", err)
		sums := map[string]int64{}
		for _, n := range all {
			if n.N != 0 {
				sums[n.Queue+" "+n.Kind+" "+n.Name] = n.N
			}
		}
		return sums
	}
	for _, keeps := range []bool{false, true} {
		x := c.open()
		x.enqueue(some(), keyed("u", ""), keyed("u", ""), some())
		x.enqueue(keyed("u", ""))
		equal(c.world, "counters before the end", len(counts()), 0)
		if !c.OneWriter { // nobody waits for what it counts
			minute := c.now(c.s).Truncate(time.Minute)
			c.check("Count", c.s.Queue.Count(c.ctx, []driver.Count{{Minute: minute, Queue: "q", Kind: "k", Name: counters.Duplicate + ":finished", N: 1},
				{Minute: minute, Queue: "q", Kind: "k", Name: counters.Duplicate + ":finished", N: -1}}))
		}
		if keeps {
			x.commit()
		} else {
			x.rollback()
			equal(c.world, "counters after a rollback", len(counts()), 0)
		}
	}
	at := some().Queue + " " + some().Kind + " "
	if got := counts(); len(got) != 2 || got[at+counters.Enqueued] != 3 || got[at+counters.Duplicate+":finished"] != 2 {
		c.Errorf("counters after the commit: %v", got)
	}
}

func joinSaid(c *caller) {
	worker := c.worker(c.s)
	h := limited("l", 1).Limit.Hash("k")
	all := c.add(limited("l", 1), limited("l", 1))
	c.fetches("at first", worker, 10, all[0])
	c.setLimit(h, 2, true)
	late := c.committed(limited("l", 4), limited("l", 4))
	c.fetches("under an operator's word", worker, 10, all[1])
	for range 3 { // whoever looks at the limit next hears of it
		c.maintain()
		c.fetches("whatever a transaction declares", worker, 10)
	}
	_, held, _ := c.find(all[0])
	equal(c.world, "the limit", held.Max, 2)
	c.setLimit(h, 4, true)
	c.fetches("when the operator says more", worker, 10, late[0].ID, late[1].ID)
}

func joinFinish(c *caller) {
	worker := c.worker(c.s)
	all := c.add(limited("l", 1), limited("l", 1))
	f := c.fetch1(worker, all[0])
	x := c.open()
	x.finish(worker, driver.OK, f)
	x.rollback()
	t, held, _ := c.find(all[0])
	equal(c.world, "state after a rollback", t.State, task.Running)
	equal(c.world, "attempts after a rollback", t.Attempts, 0)
	equal(c.world, "tasks that have a slot after a rollback", len(held.Running), 1)
	c.fetches("a fetch after a rollback", worker, 10)

	x = c.open()
	x.finish(worker, driver.OK, f)
	third := x.enqueue(limited("l", 1))[0].ID
	equal(c.world, "state before the commit", c.task(all[0]).State, task.Running)
	c.nothing("a fetch before the commit", worker)
	x.commit()
	equal(c.world, "state after the commit", c.task(all[0]).State, task.Succeeded)
	for _, id := range []task.ID{all[1], third} {
		c.finishes(worker, c.fetches("in the slot that the transaction freed", worker, 10, id)...)
	}
	equal(c.world, "repairs", c.maintain().Repaired, 0)
}

func joinRollback(c *caller) {
	table := c.table()
	x := c.open()
	x.exec("INSERT INTO " + table + " VALUES ('order')")
	x.enqueue(keyed("u", ""), keyed("", "l"), some())
	x.rollback()
	c.rows("after the rollback", table, 0)
	equal(c.world, "tasks", len(c.tasks(driver.Filter{})), 0)
	subs, err := c.s.Tasks.Queues(c.ctx)
	c.check("Queues", err)
	for _, l := range subs {
		equal(c.world, fmt.Sprint("what is said of tasks: ", l.Depth), len(l.Depth), 0)
	}
	c.fetches("the key and the slot", c.worker(c.s), 10, c.add(keyed("u", ""), keyed("", "l"))...)
	equal(c.world, "repairs", c.maintain().Repaired, 0)
}

func joinSavepoint(c *caller) {
	x := c.open()
	first := x.enqueue(some())[0].ID
	x.exec("SAVEPOINT mine")
	other := keyed("u", "l")
	other.Queue, other.Kind = "q2", "k2" // which nobody has used before
	x.enqueue(other, some())
	x.exec("ROLLBACK TO SAVEPOINT mine")
	got := x.enqueue(other, some())
	x.commit()
	for _, a := range got {
		equal(c.world, "what was taken back is enqueued again", a.Answer, task.New)
	}
	equal(c.world, "tasks", len(c.tasks(driver.Filter{})), 3)
	worker := c.worker(c.s)
	c.fetches("the others", worker, 10, first, got[1].ID)
	f := c.fetchWith(c.s, driver.FetchRequest{Worker: worker, Queues: []string{"q2"}, Kinds: []string{"k2"}})
	c.order("where nobody has been before", ids(f.Tasks), []task.ID{got[0].ID})
}

func joinFenced(c *caller) {
	worker, other := c.worker(c.s), c.worker(c.s)
	f := c.fetch1(worker, c.add1(some()))
	stale := f
	stale.Token--
	x := c.open()
	x.finish(worker, driver.Gone, stale)
	x.finish(other, driver.Gone, f)
	x.commit()
	c.release(c.s, worker)
	x = c.open()
	x.finish(worker, driver.Gone, f)
	id := x.enqueue(some())[0].ID // it goes on
	x.commit()
	equal(c.world, "state of the one that runs", c.task(f.ID).State, task.Running)
	equal(c.world, "state of the other", c.task(id).State, task.Available)
}

func joinRepeated(c *caller) {
	worker, other := c.worker(c.s), c.worker(c.s)
	end := func(in driver.Finisher, e driver.Completion) {
		c.Helper()
		got, err := in.Finish(c.ctx, worker, []driver.Completion{e})
		c.check("Finish", err)
		if len(got) != 1 || got[0] != driver.OK {
			c.Errorf("Finish with verdict %v: %v", e.Verdict, got)
		}
	}
	for _, v := range []driver.Verdict{driver.Retry, driver.Return} {
		id := c.add1(some())
		e := c.ended(c.fetch1(worker, id).Ref, v)
		x := c.open()
		end(x.Queue, e)
		end(x.Queue, e)
		x.commit()
		end(c.s.Queue, e)
		f := c.fetch1(other, id)
		end(c.s.Queue, e)
		x = c.open()
		end(x.Queue, e)
		x.commit()
		equal(c.world, "state of what the other has", c.task(id).State, task.Running)
		c.finishes(other, f)
	}
}

// joinGone: servers roll transactions back by themselves, after which each statement would be committed alone.
func joinGone(c *caller) {
	refused := func(x transaction, how string) {
		c.Helper()
		if got, err := queue.EnqueueIn(c.ctx, x.Queue, some()); err == nil {
			c.Errorf("enqueued in no transaction, %s: %+v", how, got)
		}
		_ = x.Rollback(c.ctx)
		equal(c.world, "tasks of a transaction that is gone, "+how, len(c.tasks(driver.Filter{})), 0)
	}
	for _, used := range []bool{true, false} {
		x := c.open()
		if used {
			x.enqueue(some())
		}
		x.exec("ROLLBACK")
		refused(x, fmt.Sprint("used before: ", used))
	}
	x := c.open()
	x.enqueue(some())
	x.rollback()
	refused(x, "which the caller rolled back")
	x = c.open()
	x.commit()
	refused(x, "which the caller committed")
}

func joinEnded(c *caller) {
	worker := c.worker(c.s)
	f := c.fetch1(worker, c.add1(some()))
	over, cancel := context.WithCancel(c.ctx)
	cancel()
	for _, used := range []bool{false, true} {
		x := c.open()
		want := 1
		if used {
			x.enqueue(some())
			want++
		}
		if _, err := queue.EnqueueIn(over, x.Queue, some()); err == nil {
			c.Error("enqueued though the context had ended")
		}
		if _, err := x.Queue.Finish(over, worker, succeeded([]driver.Fetched{f})); err == nil {
			c.Error("finished though the context had ended")
		}
		x.goesOn()
		x.enqueue(some())
		x.commit()
		equal(c.world, fmt.Sprint("tasks of the transaction, used before: ", used), len(c.fetch(worker, 10)), want)
		equal(c.world, "state of the one that ran before", c.task(f.ID).State, task.Running)
	}
}

// joinDuplicate: when the task starts, what the duplicate's caller wrote is there.
func joinDuplicate(c *caller) {
	worker := c.worker(c.s)
	for _, s := range []task.Spec{keyed("u", ""), keyed("v", "l")} {
		id := c.add1(s)
		x := c.open()
		equal(c.world, "the answer", x.enqueue(s)[0], task.Enqueued{Answer: task.Duplicate, ID: id, State: task.Available})
		c.nothing("a fetch before the commit", worker)
		x.commit()
		c.fetch1(worker, id)
	}
}

func joinWaits(c *caller) {
	alone := func(s task.Spec) ([]task.Enqueued, error) { return queue.EnqueueIn(c.ctx, c.s.Queue, s) }
	joined := func(s task.Spec) ([]task.Enqueued, error) {
		x, err := c.connected(c.ctx)
		if err != nil {
			return nil, err
		}
		got, err := queue.EnqueueIn(c.ctx, x.Queue, s)
		return got, errors.Join(err, x.Commit(c.ctx))
	}
	for how, enqueue := range map[string]func(task.Spec) ([]task.Enqueued, error){"alone": alone, "in a transaction": joined} {
		for _, commit := range []bool{true, false} {
			s := keyed(fmt.Sprint(how, commit), "")
			x := c.open()
			id := x.enqueue(s)[0].ID
			var got []task.Enqueued
			var err error
			var waiting sync.WaitGroup
			waiting.Go(func() { got, err = enqueue(s) })
			time.Sleep(100 * time.Millisecond) // in most runs it waits by then; in all it must be right
			if commit {
				x.commit()
			} else {
				x.rollback()
			}
			waiting.Wait()
			c.check("Enqueue "+how, err)
			want := task.Enqueued{Answer: task.New, ID: got[0].ID, State: task.Available}
			if commit {
				want = task.Enqueued{Answer: task.Duplicate, ID: id, State: task.Available}
			}
			equal(c.world, fmt.Sprintf("the answer %s, commit: %v", how, commit), got[0], want)
			c.duplicate(s, want.ID, task.Available)
		}
	}
}

// joinDisplace: the one that runs was being ended by a transaction when it was to be asked to stop.
func joinDisplace(c *caller) {
	worker := c.worker(c.s)
	displacing := limited("l", 1)
	displacing.Limit.OnContention = task.Displace
	first := c.fetch1(worker, c.add1(displacing))
	second := c.add1(displacing)
	x := c.open()
	x.finish(worker, driver.OK, first)
	c.nothing("a fetch beside the transaction", worker)
	x.rollback()
	c.fetches("a fetch after the rollback", worker, 10)
	asked, err := c.s.Queue.Running(c.ctx, worker, true)
	c.check("Mine", err)
	if len(asked) != 1 || asked[0] != (driver.RunningTask{Ref: first.Ref, Stop: task.ReasonReplaced}) {
		c.Errorf("asked to stop: %+v", asked)
	}
	c.finishes(worker, first)
	c.fetch1(worker, second)
}

// joinWork is the round of an application: a task is enqueued with a row of its own, and a worker commits the
// work with its completion.
func joinWork(c *caller) {
	table, ended := c.table(), make(chan int, 10)
	s := c.shop()
	s.work(1, func(ctx context.Context, r *queue.Run) error {
		defer func() { ended <- r.Attempt }()
		x, err := c.connected(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = x.Rollback(ctx) }()
		if err := x.Exec(ctx, fmt.Sprintf("INSERT INTO %s VALUES ('done by attempt %d')", table, r.Attempt)); err != nil {
			return err
		}
		if err := r.Complete(ctx, x.Queue); err != nil {
			return err
		}
		if r.Attempt == 1 {
			return errors.New("not this time")
		}
		return x.Commit(ctx)
	})
	x := c.open()
	x.exec("INSERT INTO " + table + " VALUES ('asked for')")
	id := x.enqueue(keyed("u", ""))[0].ID
	x.commit()
	for want := range 2 {
		select {
		case n := <-ended:
			equal(c.world, "the attempt that ended", n, want+1)
		case <-c.ctx.Done():
			c.Fatal("nobody works")
		}
	}
	t := s.comes(id, task.Succeeded)
	equal(c.world, "attempts", t.Attempts, 2)
	c.rows("in the end", table, 2)
	c.rows("in the end", table+" WHERE word = 'done by attempt 2'", 1)
}

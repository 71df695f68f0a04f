package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A scale is a store with very many tasks, and all that can be done there. step is told of each operation.
type scale struct {
	testing.TB
	s      *store.Store
	n      int // tasks that an operation has to do with
	worker lease.Ref
	step   func(what string, do func())
}

// run goes through all operations, each with n tasks, beside the neighbours.
func (c *scale) run(neighbours int) {
	c.worker = joined(c, c.s, time.Hour)
	c.settle(neighbours)
	for _, f := range []func(){
		c.plain, c.finishing, c.due, c.limit, c.displacing, c.lines, c.kinds, c.pausing, c.rescuing, c.moving, c.ending, c.looking, c.retention,
	} {
		f()
	}
}

func (c *scale) must(err error) {
	if err != nil {
		c.Helper()
		c.Fatal(err)
	}
}

// put enqueues n tasks, a thousand at a time, the i-th as of says, and returns the last id.
func (c *scale) put(n int, of func(i int) task.Spec) (last task.ID) {
	c.Helper()
	for i := 0; i < n; i += 1000 {
		specs := make([]task.Spec, min(1000, n-i))
		for j := range specs {
			specs[j] = of(i + j)
			c.must(specs[j].Check())
		}
		a, err := c.s.Queue.Enqueue(c.Context(), specs)
		c.must(err)
		last = a[len(a)-1].ID
	}
	return last
}

// all is so many tasks alike.
func (c *scale) all(n int, s task.Spec) task.ID { return c.put(n, func(int) task.Spec { return s }) }

// settle fills in what the others have nothing to do with: of other queues, of other kinds of the same one,
// rated, paused, blocked.
func (c *scale) settle(n int) {
	ctx := c.Context()
	c.must(c.s.Queue.Declare(ctx, map[string]task.Rate{"rated": {Count: 1, Per: time.Hour}}))
	c.must(c.s.Tasks.Pause(ctx, driver.Pause{Kind: "paused"}))
	limited := &task.Limit{Key: "neighbour", Shared: true}
	c.all(2, task.Spec{Queue: "other", Kind: "held", Limit: limited})
	_, err := c.s.Queue.Fetch(ctx, driver.FetchRequest{Worker: c.worker, Queues: []string{"other"}, Max: 1})
	c.must(err)
	for _, s := range []task.Spec{
		{Queue: "other", Kind: "k"}, {Queue: "q", Kind: "unknown"}, {Queue: "q", Kind: "rated"}, {Queue: "q", Kind: "paused"},
		{Queue: "q", Kind: "blocked", Limit: limited}, {Queue: "q", Kind: "k", Delay: 100 * time.Hour},
	} {
		c.all(n/6, s)
	}
}

func (c *scale) fetchOf(queueName string, max int) []driver.Fetched {
	f, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: []string{queueName}, Max: max, Suspects: true, Crashers: true,
		Kinds: []string{"k", "l", "rated", "paused", "blocked"}})
	c.must(err)
	return f.Tasks
}

func (c *scale) finish(runs []driver.Fetched, v driver.Verdict) {
	var ends []driver.Completion
	for _, r := range runs {
		ends = append(ends, driver.Completion{Ref: r.Ref, Verdict: v, Outcome: "x"})
	}
	_, err := c.s.Queue.Finish(c.Context(), c.worker, ends)
	c.must(err)
}

// work works a queue off, or as much of it as max fetches give.
func (c *scale) work(what, queueName string, fetches int) (done int) {
	for range fetches {
		var runs []driver.Fetched
		c.step(what+": fetch", func() { runs = c.fetchOf(queueName, 1000) })
		if len(runs) == 0 {
			break
		}
		c.step(what+": finish", func() { c.finish(runs, driver.Success) })
		done += len(runs)
	}
	return done
}

func (c *scale) maintain(what string, keep map[task.State]time.Duration) {
	rounds := 0
	for more := true; more; rounds++ {
		if rounds > 1000+c.n {
			c.Fatalf("%s: the sweeps never come to an end", what)
		}
		c.step(what, func() {
			done, err := c.s.Queue.Maintain(c.Context(), driver.MaintainRequest{Keep: keep})
			c.must(err)
			more = done.More
		})
	}
}

func (c *scale) plain() {
	c.step("enqueue 1,000", func() { c.all(1000, task.Spec{Queue: "q", Kind: "k"}) })
	c.step("enqueue 1,000 with a limit", func() { c.all(1000, task.Spec{Queue: "q", Kind: "k", Limit: &task.Limit{Key: "busy"}}) })
	unique := func(again task.Again) func() {
		return func() {
			c.put(1000, func(i int) task.Spec {
				return task.Spec{Queue: "q", Kind: "l", Unique: &task.Unique{Key: fmt.Sprint("u", i), Until: task.UntilStarted, Again: again}}
			})
		}
	}
	c.step("enqueue 1,000 unique", unique(task.Refuse))
	c.step("enqueue 1,000 that replace", unique(task.Replace))
	c.all(c.n, task.Spec{Queue: "q", Kind: "k"})
}

func (c *scale) finishing() {
	runs := c.fetchOf("q", 1000)
	c.step("finish 1,000 that are tried again", func() { c.finish(runs, driver.Retry) })
	c.work("plain", "q", 3+c.n/100)
}

// due has many tasks come due at one instant.
func (c *scale) due() {
	at := time.Now().Add(500*time.Millisecond + time.Duration(min(c.n, 200_000))*200*time.Microsecond)
	for _, l := range []*task.Limit{nil, {Key: "due", Max: 10}} {
		c.all(min(c.n, 200_000)/2, task.Spec{Queue: "due", Kind: "k", RunAt: at, Limit: l})
	}
	time.Sleep(time.Until(at))
	c.work("due at one instant", "due", 3)
	c.maintain("due at one instant: maintain", nil)
}

// limit raises a limit of one with many behind it, and lowers it.
func (c *scale) limit() {
	of := task.Limit{Key: "l"}
	c.all(c.n, task.Spec{Queue: "limited", Kind: "k", Limit: &of})
	key := of.Hash("k")
	set := func(what string, slots int) {
		c.step(what, func() { _, err := c.s.Tasks.SetLimit(c.Context(), key, slots, "t"); c.must(err) })
	}
	set("raise a limit", 10*c.n)
	c.work("raised", "limited", 2)
	runs := c.fetchOf("limited", 10)
	var id task.ID
	for _, r := range runs {
		id = r.ID
	}
	c.maintain("raised: maintain", nil)
	c.step("show one of a limit", func() { _, _, _, err := c.s.Tasks.Task(c.Context(), id); c.must(err) })
	set("lower a limit", 1)
	c.work("lowered", "limited", 2)
	c.finish(runs, driver.Success)
	c.maintain("lowered: maintain", nil)
	set("raise a limit again", 10*c.n)
	c.step("declare another one by an enqueue", func() {
		of.Max = 3
		c.all(1, task.Spec{Queue: "limited", Kind: "k", Limit: &of})
	})
	c.maintain("declared: maintain", nil)
}

// displacing supersedes many by one, and asks many that run to stop.
func (c *scale) displacing() {
	of := task.Limit{Key: "d", Max: 2000, OnContention: task.Displace}
	c.all(2000, task.Spec{Queue: "displace", Kind: "k", Limit: &of})
	c.fetchOf("displace", 1000)
	c.fetchOf("displace", 1000)
	c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Queue: "displace"}))
	c.all(c.n, task.Spec{Queue: "displace", Kind: "k", Limit: &of})
	c.all(1, task.Spec{Queue: "displace", Kind: "k", Limit: &of, Priority: 5})
	_, err := c.s.Tasks.Resume(c.Context(), "displace", "", "t")
	c.must(err)
	for range 4 + c.n/100 {
		c.step("supersede: fetch", func() { c.fetchOf("displace", 100) })
	}
	c.step("tasks of one's own", func() { _, err := c.s.Queue.Running(c.Context(), c.worker, false); c.must(err) })
}

// lines has a limit that tasks of very many kinds name.
func (c *scale) lines() {
	of := task.Limit{Key: "lines", Shared: true}
	c.put(c.n/4, func(i int) task.Spec {
		return task.Spec{Queue: "lines", Kind: fmt.Sprint("k", i), Limit: &of}
	})
	c.all(3, task.Spec{Queue: "lines", Kind: "k", Limit: &of})
	for range 3 {
		c.work("a limit of many kinds", "lines", 1)
	}
	c.step("raise a limit of many kinds", func() { _, err := c.s.Tasks.SetLimit(c.Context(), of.Hash(""), 1000, "t"); c.must(err) })
	c.maintain("a limit of many kinds: maintain", nil)
}

// kinds are very many in a queue, each with a rate and a pause; the worker knows few.
func (c *scale) kinds() {
	many := c.n / 4
	rates := map[string]task.Rate{}
	for i := range many {
		rates[fmt.Sprint("k", i)] = task.Rate{Count: 1, Per: time.Hour}
	}
	c.step("declare rates", func() { c.must(c.s.Queue.Declare(c.Context(), rates)) })
	c.put(many, func(i int) task.Spec { return task.Spec{Queue: "kinds", Kind: fmt.Sprint("k", i)} })
	for i := range min(many, 1000) {
		c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Kind: fmt.Sprint("k", i)}))
	}
	c.all(10, task.Spec{Queue: "kinds", Kind: "k"})
	c.work("beside many kinds", "kinds", 3)
	c.step("fetch of any kind", func() {
		_, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: []string{"kinds"}, Max: 100})
		c.must(err)
	})
	var l []driver.SubQueue
	c.step("list queues", func() { l, _ = c.s.Tasks.Queues(c.Context()) })
	if len(l) < many {
		c.Errorf("%d sub-queues, want %d at least", len(l), many)
	}
}

func (c *scale) pausing() {
	c.all(c.n, task.Spec{Queue: "pauses", Kind: "k"})
	c.step("pause", func() { c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Queue: "pauses"})) })
	c.step("fetch of what is paused", func() { c.fetchOf("pauses", 100) })
	c.step("resume", func() { _, err := c.s.Tasks.Resume(c.Context(), "pauses", "", "t"); c.must(err) })
	c.step("fetch of what is paused no more", func() { c.fetchOf("pauses", 100) })
}

// rescuing ends workers with very many tasks, a part of them behind a limit.
func (c *scale) rescuing() {
	n := min(c.n, 10_000)
	own := c.worker
	for _, leave := range []bool{true, false} {
		c.worker = joined(c, c.s, time.Hour)
		c.all(n/2, task.Spec{Queue: "rescue", Kind: "k"})
		c.all(n/2, task.Spec{Queue: "rescue", Kind: "k", Limit: &task.Limit{Key: "r", Max: n}})
		for got := 0; got < n; {
			runs := c.fetchOf("rescue", 1000)
			if len(runs) == 0 {
				break // suspects come one by one
			}
			got += len(runs)
		}
		if leave {
			c.step("leave with many tasks", func() { c.must(c.s.Queue.Deregister(c.Context(), c.worker)) })
			continue
		}
		_, err := c.s.Leases.Release(c.Context(), []lease.Ref{c.worker})
		c.must(err)
		c.maintain("rescue many", nil)
	}
	c.worker = own
}

func (c *scale) act(what string, a driver.OpRequest, f driver.Filter) {
	f.Max = 1000
	for {
		var tasks []driver.Task
		c.step(what+": list", func() {
			var err error
			tasks, err = c.s.Tasks.Tasks(c.Context(), f)
			c.must(err)
		})
		if len(tasks) == 0 {
			return
		}
		a.IDs = nil
		for _, t := range tasks {
			a.IDs = append(a.IDs, t.ID)
		}
		f.After = a.IDs[len(a.IDs)-1]
		c.step(what, func() { _, err := c.s.Tasks.Operate(c.Context(), a); c.must(err) })
	}
}

// moving does what operators do to a whole queue.
func (c *scale) moving() {
	c.all(c.n/2, task.Spec{Queue: "acts", Kind: "k"})
	c.all(c.n/2, task.Spec{Queue: "acts", Kind: "k", Limit: &task.Limit{Key: "acts", Max: 100}})
	waiting := task.Waits(true)
	low := -3
	c.act("edit", driver.OpRequest{Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}, driver.Filter{Queue: "acts", States: waiting})
	c.act("promote", driver.OpRequest{Operation: driver.OpPromote}, driver.Filter{Queue: "acts", States: waiting})
	c.act("move", driver.OpRequest{Operation: driver.OpMove, Queue: "moved"}, driver.Filter{Queue: "acts", States: waiting})
	c.act("cancel", driver.OpRequest{Operation: driver.OpCancel}, driver.Filter{Queue: "moved", States: waiting})
	c.act("retry", driver.OpRequest{Operation: driver.OpRetry}, driver.Filter{Queue: "moved", States: []task.State{task.Canceled}})
	c.act("discard", driver.OpRequest{Operation: driver.OpDiscard}, driver.Filter{Queue: "moved", States: waiting})
	c.act("delete", driver.OpRequest{Operation: driver.OpDelete}, driver.Filter{Queue: "moved", States: []task.State{task.Discarded}})
}

// ending has many windows end at one time, and many tasks expire.
func (c *scale) ending() {
	c.put(c.n, func(i int) task.Spec {
		return task.Spec{Queue: "windows", Kind: "k", Unique: &task.Unique{Key: fmt.Sprint("w", i), Window: 300 * time.Millisecond}}
	})
	for c.work("unique", "windows", 10) > 0 {
	}
	at := time.Now().Add(300*time.Millisecond + time.Duration(c.n)*100*time.Microsecond)
	c.put(c.n, func(i int) task.Spec {
		s := task.Spec{Queue: "expires", Kind: "k", ExpiresAt: at}
		if i%2 == 0 {
			s.Limit = &task.Limit{Key: "expires", Max: 10}
		}
		return s
	})
	time.Sleep(time.Until(at))
	c.step("fetch of what has expired", func() { c.fetchOf("expires", 100) })
	c.maintain("windows and expiries", nil)
}

func (c *scale) looking() {
	filters := map[string]driver.Filter{
		"all": {}, "failed": {States: []task.State{task.Failed}}, "running": {States: []task.State{task.Running}}, "a tag": {Tag: "none"},
		"a kind": {Kind: "k"}, "waiting": {States: task.Waits(true)}, "discarded": {States: []task.State{task.Discarded}}, "no kind": {Kind: "none"},
		"the newest": {Newest: true}, "the newest failed": {States: []task.State{task.Failed, task.Crashed}, Newest: true},
		"the newest waiting": {States: task.Waits(true), Newest: true}, "lately": {Since: time.Now()}, "the newest of no tag": {Tag: "none", Newest: true},
	}
	for what, f := range filters {
		f.Max = 1000
		c.step("list "+what, func() { _, err := c.s.Tasks.Tasks(c.Context(), f); c.must(err) })
	}
	c.step("counts", func() {
		_, err := c.s.Tasks.Counts(c.Context(), time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour))
		c.must(err)
	})
	c.step("list workers", func() { _, err := c.s.Tasks.Workers(c.Context()); c.must(err) })
}

func (c *scale) retention() {
	keep := map[task.State]time.Duration{}
	for _, s := range task.States {
		if s.Final() {
			keep[s] = 0
		}
	}
	c.maintain("retention", keep)
	done, err := c.s.Tasks.Tasks(c.Context(), driver.Filter{States: slices.DeleteFunc(slices.Clone(task.States), func(s task.State) bool { return !s.Final() })})
	c.must(err)
	if len(done) > 0 {
		c.Errorf("%d finished tasks are left, such as %+v", len(done), done[0])
	}
}

//go:build linux

package file

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A crowd is a directory with very many tasks, and all that can be done there, in steps that are watched.
type crowd struct {
	testing.TB
	s      *store.Store
	n      int // how many tasks a step has to do with
	worker lease.Ref
	watch  func(what string, tasks int, do func())
}

const (
	// eachTask is how many steps of SQLite's machine one task may take in a step: one of a limit counts for two.
	// lookSteps is what a step may take besides.
	eachTask, lookSteps = 450, 10_000
)

// No step holds the directory for longer than its tasks take, or a bounded number of others, whatever there is
// beside them.
// Holds: promise 26.
func TestEachStepIsBoundedBesideManyNeighbours(t *testing.T) {
	testsize.Counts(t)
	m, most := metered(t), map[string]int64{}
	if !testsize.Long() {
		was := mostAtOnce
		mostAtOnce = 100
		t.Cleanup(func() { mostAtOnce = was })
	}
	c := &crowd{TB: t, n: testsize.Of(1500, 200_000)}
	c.watch = func(what string, tasks int, do func()) {
		t.Helper()
		steps, worst := m.took(do)
		if bound := int64(tasks)*eachTask + lookSteps; steps > bound {
			t.Errorf("%s: one transaction took %d steps, more than %d; most of them: %.300s", what, steps, bound, worst)
		}
		if steps > most[what] {
			most[what] = steps
			t.Logf("%-45s %9d steps, for %d tasks", what, steps, tasks)
		}
	}
	c.run(5 * c.n)
}

// open opens an empty directory, with a worker.
func (c *crowd) open() {
	config := configAt(c.TempDir(), true)
	config.TTL = 24 * time.Hour
	var err error
	c.s, err = OpenConfig(c.Context(), config)
	c.must(err)
	c.Cleanup(func() { _ = c.s.Close() })
	c.worker = c.join("w")
}

// run does all of it beside so many neighbours.
func (c *crowd) run(neighbours int) {
	c.open()
	c.neighbours(neighbours)
	for _, f := range []func(){c.plain, c.due, c.limit, c.wide, c.displacing, c.expiring, c.windows, c.subs, c.rescuing, c.acting, c.looking, c.unused, c.retention} {
		f()
	}
}

func (c *crowd) must(err error) {
	if err != nil {
		c.Helper()
		c.Fatal(err)
	}
}

// step does something that has to do with so many tasks.
func (c *crowd) step(what string, tasks int, do func()) {
	c.Helper()
	c.watch(what, tasks, do)
}

func (c *crowd) join(key lease.Key) lease.Ref {
	q := requestFor(key, 24*time.Hour)
	a, err := tryAcquire(c.s, q)
	c.must(err)
	ref := a.Record.Ref()
	c.must(c.s.Queue.Register(c.Context(), driver.Process{Lease: ref, Host: "h", PID: 1}))
	return ref
}

func (c *crowd) enqueue(specs ...task.Spec) []task.Enqueued {
	c.Helper()
	for i := range specs {
		c.must(specs[i].Check())
	}
	a, err := c.s.Queue.Enqueue(c.Context(), specs)
	c.must(err)
	return a
}

// all is n tasks alike: one that is enqueued, and copies of it.
func (c *crowd) all(n int, s task.Spec) task.ID {
	c.Helper()
	id := c.enqueue(s)[0].ID
	c.copies(id, n-1, "")
	return id
}

// copies are n more of a task, in which some columns are different.
func (c *crowd) copies(id task.ID, n int, set string) {
	c.Helper()
	const columns = `subqueue, state, class, rank, priority, run_at, enqueued, expires, started, ended, attempts, granted, crashes, snoozes, begun, displaced,
		token, worker, completed, ukey, window, limited, line, args, options, reason, stop`
	from := columns
	for _, s := range strings.Split(set, ";") {
		if column, value, ok := strings.Cut(s, "="); ok {
			from = strings.Replace(from, " "+column+",", " "+value+",", 1)
		}
	}
	c.must(inside(c.s).write(c.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?) INSERT INTO dibs_tasks ("+columns+") SELECT "+from+
			" FROM i, dibs_tasks WHERE id = ?", n, int64(id))
		return err
	}))
}

func (c *crowd) fetch(queueName string, most int) driver.Fetch {
	c.Helper()
	f, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: []string{queueName}, Max: most, Suspects: true, Crashers: true,
		Kinds: []string{"k", "paused", "rated", "blocked"}})
	if c.must(err); f.Gone {
		c.Fatal("the worker's lease has lapsed")
	}
	return f
}

func (c *crowd) finish(runs []driver.Fetched) {
	c.Helper()
	var ends []driver.Completion
	for _, r := range runs {
		ends = append(ends, driver.Completion{Ref: r.Ref, Verdict: driver.Success})
	}
	_, err := c.s.Queue.Finish(c.Context(), c.worker, ends)
	c.must(err)
}

// work takes a few batches out of a queue, and some of one.
func (c *crowd) work(what, queueName string, each int) (done int) {
	c.Helper()
	for _, size := range []int{10, 10, 200, 200, 1} {
		var f driver.Fetch
		c.step(what+": fetch", mostAtOnce+each*min(size, mostAtOnce), func() { f = c.fetch(queueName, size) })
		if n := len(f.Tasks); n > 0 {
			c.step(what+": finish", each*min(n, mostAtOnce), func() { c.finish(f.Tasks) })
		}
		done += len(f.Tasks)
	}
	return done
}

func (c *crowd) maintain(what string, each int, keep map[task.State]time.Duration) (all driver.Maintained) {
	c.Helper()
	for more, n := true, 0; more; n++ {
		if n > 2000+c.n {
			c.Fatalf("%s: the sweeps never come to an end", what)
		}
		c.step(what, each*mostAtOnce, func() {
			done, err := c.s.Queue.Maintain(c.Context(), driver.MaintainRequest{Keep: keep})
			c.must(err)
			more = done.More
			all.Rescued, all.Due, all.Expired, all.Freed, all.Deleted =
				all.Rescued+done.Rescued, all.Due+done.Due, all.Expired+done.Expired, all.Freed+done.Freed, all.Deleted+done.Deleted
		})
	}
	return all
}

// neighbours are of other queues, of other kinds of the same one, rated, paused, blocked, finished and yet to come.
func (c *crowd) neighbours(n int) {
	ctx := c.Context()
	c.must(c.s.Queue.Declare(ctx, map[string]task.Rate{"rated": {Count: 1, Per: time.Hour}}))
	c.must(c.s.Tasks.Pause(ctx, driver.Pause{Kind: "paused"}))
	limited := &task.Limit{Key: "neighbour"}
	c.enqueue(task.Spec{Queue: "q", Kind: "blocked", Limit: limited}, task.Spec{Queue: "q", Kind: "rated"})
	c.fetch("q", 2)
	for _, s := range []task.Spec{
		{Queue: "other", Kind: "k"}, {Queue: "q", Kind: "unknown"}, {Queue: "q", Kind: "rated"}, {Queue: "q", Kind: "paused"},
		{Queue: "q", Kind: "blocked", Limit: limited}, {Queue: "q", Kind: "k", Delay: 100 * time.Hour},
		{Queue: "q", Kind: "k", Delay: time.Hour, ExpiresAt: time.Now().Add(100 * time.Hour)},
	} {
		c.all(n/10, s)
	}
	// Long finished, with a window that goes on.
	id := c.enqueue(task.Spec{Queue: "q", Kind: "unknown", Delay: time.Hour})[0].ID
	c.copies(id, 3*n/10, fmt.Sprintf("state=5;ended=1;window=%d", time.Now().Add(time.Hour).UnixMicro()))
}

func (c *crowd) plain() {
	many := min(c.n/3, 1000)
	batch := make([]task.Spec, many)
	for i := range batch {
		batch[i] = task.Spec{Queue: "q", Kind: "k"}
	}
	c.step("enqueue many", many, func() { c.enqueue(batch...) })
	c.step("enqueue 1", 1, func() { c.enqueue(batch[0]) })
	for i := range batch {
		batch[i].Unique = &task.Unique{Key: fmt.Sprint(i), Until: task.UntilStarted, Again: task.Replace}
	}
	c.step("enqueue many unique", many, func() { c.enqueue(batch...) })
	c.step("enqueue many that replace", many, func() { c.enqueue(batch...) })
	for i := range batch {
		batch[i].Unique, batch[i].Queue, batch[i].Limit = nil, "apart", &task.Limit{Key: fmt.Sprint(i)}
	}
	c.step("enqueue many of limits apart", 2*many, func() { c.enqueue(batch...) })
	c.enqueue(batch...)
	c.work("of limits apart", "apart", 2)
	if n := c.work("plain", "q", 1); n != 421 {
		c.Errorf("%d were given, want 421", n)
	}
	var runs []driver.Fetched
	c.step("fetch many", 2*mostAtOnce, func() { runs = c.fetch("q", many).Tasks })
	refs := make([]driver.Ref, len(runs))
	for i := range runs {
		refs[i] = runs[i].Ref
	}
	c.step("start many", mostAtOnce, func() { _, err := c.s.Queue.Start(c.Context(), c.worker, refs); c.must(err) })
	c.step("a worker's look", len(runs), func() { _, err := c.s.Queue.Running(c.Context(), c.worker, true); c.must(err) })
	c.step("finish many", mostAtOnce, func() { c.finish(runs) })
	c.step("a fetch that finds nothing", 0, func() { c.fetch("nothing", 100) })
	for len(c.fetch("q", 1000).Tasks) > 0 {
	}
	c.step("a fetch that finds nothing beside neighbours", 0, func() { c.fetch("q", 100) })
	c.maintain("maintain", 1, nil)
}

// due has many come due at one instant, a part of them behind a limit; one of another kind does not wait for them.
func (c *crowd) due() {
	at := "run_at=" + fmt.Sprint(time.Now().Add(-time.Second).UnixMicro())
	for _, l := range []*task.Limit{nil, {Key: "due", Max: 10}} {
		id := c.enqueue(task.Spec{Queue: "due", Kind: "k", Delay: time.Hour, Limit: l})[0].ID
		c.copies(id, c.n/2, at)
	}
	id := c.enqueue(task.Spec{Queue: "due", Kind: "rated", Delay: time.Hour})[0].ID
	c.copies(id, 1, at)
	if n := c.work("due at one instant", "due", 2); n < 150 {
		c.Errorf("%d were given", n)
	}
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("due", i))
		id := c.enqueue(task.Spec{Queue: names[i], Kind: "k", Delay: time.Hour})[0].ID
		c.copies(id, mostAtOnce, at)
	}
	c.step("a fetch from many queues", mostAtOnce, func() {
		_, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: names, Max: 1})
		c.must(err)
	})
	c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Queue: "due"}))
	if got := c.maintain("due at one instant: maintain", 2, nil); got.Due == 0 {
		c.Errorf("%+v", got)
	}
}

// limit raises a limit of one with many behind it, and lowers it.
func (c *crowd) limit() {
	of := task.Limit{Key: "l"}
	c.enqueue(task.Spec{Queue: "limited", Kind: "k", Limit: &of}, task.Spec{Queue: "limited", Kind: "k", Limit: &of})
	c.copies(c.enqueue(task.Spec{Queue: "limited", Kind: "k", Limit: &of})[0].ID, c.n, "")
	set := func(what string, slots int) {
		c.step(what, mostAtOnce, func() { _, err := c.s.Tasks.SetLimit(c.Context(), of.Hash("k"), slots, "t"); c.must(err) })
	}
	c.work("a limit of one", "limited", 2)
	set("raise a limit", 10*c.n)
	c.step("enqueue one behind it", 100, func() { c.enqueue(task.Spec{Queue: "limited", Kind: "k", Limit: &of}) })
	if n := c.work("raised", "limited", 2); n != 421 {
		c.Errorf("%d were given of a raised limit, want 421", n)
	}
	runs := c.fetch("limited", 10)
	set("lower a limit", 1)
	if n := c.work("lowered", "limited", 2); n > 0 {
		c.Errorf("%d were given beyond a limit", n)
	}
	c.step("finish of a lowered one", 100, func() { c.finish(runs.Tasks) })
	if n := len(c.fetch("limited", 10).Tasks); n != 1 {
		c.Errorf("%d were given of a limit of one", n)
	}
}

// wide has a limit that tasks of very many kinds name.
func (c *crowd) wide() {
	of := task.Limit{Key: "wide", Shared: true}
	kinds := min(c.n/5, 20_000)
	for i := 0; i < kinds; i += 500 {
		batch := make([]task.Spec, min(500, kinds-i))
		for j := range batch {
			batch[j] = task.Spec{Queue: "wide", Kind: fmt.Sprint("k", i+j), Limit: &of}
		}
		c.step("enqueue behind a limit of many kinds", 4*len(batch), func() { c.enqueue(batch...) })
	}
	c.enqueue(task.Spec{Queue: "wide", Kind: "k", Limit: &of}, task.Spec{Queue: "wide", Kind: "k", Limit: &of})
	c.work("a limit of many kinds", "wide", 2)
	c.step("raise a limit of many kinds", mostAtOnce, func() { _, err := c.s.Tasks.SetLimit(c.Context(), of.Hash(""), 1000, "t"); c.must(err) })
	c.work("a raised limit of many kinds", "wide", 2)
	c.maintain("a limit of many kinds: maintain", 4, nil)
	got := 0
	for range 3 {
		c.step("fetch of any kind", 2*mostAtOnce, func() {
			f, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: []string{"wide"}, Max: 50})
			c.must(err)
			got += len(f.Tasks)
		})
	}
	if got != 150 {
		c.Errorf("%d of many kinds were given, want 150", got)
	}
	states := func(s task.State) int {
		n := 0
		l, err := c.s.Tasks.Queues(c.Context())
		c.must(err)
		for _, x := range l {
			if x.Queue == "wide" {
				n += x.Depth[s]
			}
		}
		return n
	}
	c.step("lower a limit of many kinds", mostAtOnce, func() { _, err := c.s.Tasks.SetLimit(c.Context(), of.Hash(""), 1, "t"); c.must(err) })
	c.maintain("a limit of many kinds: maintain", 4, nil)
	if n := states(task.Available); n != 0 {
		c.Errorf("%d are offered with no slot free", n)
	}
}

// displacing supersedes many by one, and asks many that run to stop.
func (c *crowd) displacing() {
	of := task.Limit{Key: "d", Max: min(c.n/2, 1000), OnContention: task.Displace}
	displacing := task.Spec{Queue: "displace", Kind: "k", Limit: &of}
	displaceable := min(c.n/2, 1000)
	c.all(displaceable, displacing)
	for got := 0; got < displaceable; {
		got += len(c.fetch("displace", displaceable).Tasks)
	}
	c.all(c.n, displacing)
	displacing.Priority = 5
	id := c.enqueue(displacing)[0].ID
	for n := 0; ; n++ {
		var f driver.Fetch
		c.step("supersede: fetch", mostAtOnce+100, func() { f = c.fetch("displace", 100) })
		if len(f.Tasks) > 0 || n > c.n {
			c.Fatalf("after %d: %+v", n, f.Tasks)
		}
		x, _, _, err := c.s.Tasks.Task(c.Context(), id)
		if c.must(err); x.State == task.Blocked {
			break
		}
		if f.NextDue.After(f.Now) || f.NextDue.IsZero() {
			c.Fatalf("there is more to do, and it says not before %v", f.NextDue)
		}
	}
	asked, err := c.s.Queue.Running(c.Context(), c.worker, true)
	if c.must(err); len(asked) != displaceable {
		c.Errorf("%d are asked to stop, want %d", len(asked), displaceable)
	}
}

// expiring has many that a fetch meets too late.
func (c *crowd) expiring() {
	id := c.enqueue(task.Spec{Queue: "expires", Kind: "k", ExpiresAt: time.Now().Add(time.Hour)})[0].ID
	c.copies(id, c.n, "expires=1")
	c.step("fetch of what has expired", mostAtOnce, func() { c.fetch("expires", 100) })
	c.maintain("expiries", 1, nil)
}

// windows end at one instant.
func (c *crowd) windows() {
	id := c.enqueue(task.Spec{Queue: "windows", Kind: "k", Delay: time.Hour})[0].ID
	c.copies(id, c.n, "state=5;ended=1;window=2")
	c.maintain("windows", 1, nil)
}

// sub-queues are very many kinds of a queue, each with a rate and a pause.
func (c *crowd) subs() {
	rates := map[string]task.Rate{}
	many := min(c.n/3, 20_000)
	for i := range many {
		rates[fmt.Sprint("k", i)] = task.Rate{Count: 1, Per: time.Hour}
	}
	c.step("declare rates", mostAtOnce, func() { c.must(c.s.Queue.Declare(c.Context(), rates)) })
	for i := 0; i < many; i += 500 {
		batch := make([]task.Spec, min(500, many-i))
		for j := range batch {
			batch[j] = task.Spec{Queue: "kinds", Kind: fmt.Sprint("k", i+j)}
		}
		c.enqueue(batch...)
	}
	for i := range min(many, 300) {
		c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Kind: fmt.Sprint("k", i)}))
	}
	c.all(10, task.Spec{Queue: "kinds", Kind: "k"})
	if n := c.work("beside many kinds", "kinds", 1); n != 10 {
		c.Errorf("%d were given, want 10", n)
	}
	c.step("fetch of any kind", 2*mostAtOnce, func() {
		_, err := c.s.Queue.Fetch(c.Context(), driver.FetchRequest{Worker: c.worker, Queues: []string{"kinds"}, Max: 100})
		c.must(err)
	})
}

// rescuing ends workers with ten thousand tasks, a part of them behind a limit.
func (c *crowd) rescuing() {
	n, own := min(c.n, 10_000), c.worker
	for _, leaves := range []bool{true, false} {
		c.worker = c.join(lease.Key(fmt.Sprint("dies ", leaves)))
		c.all(n/2, task.Spec{Queue: "rescue", Kind: "k"})
		c.copies(c.enqueue(task.Spec{Queue: "rescue", Kind: "k", Limit: &task.Limit{Key: "r", Max: n}})[0].ID, n/2, "state=2")
		for got := 0; got < n; {
			f := c.fetch("rescue", 1000)
			if len(f.Tasks) <= 1 {
				c.Fatalf("%d of %d were given, and then %d", got, n, len(f.Tasks))
			}
			got += len(f.Tasks)
		}
		if leaves {
			c.step("leave with many tasks", 2*mostAtOnce, func() { c.must(c.s.Queue.Deregister(c.Context(), c.worker)) })
			continue
		}
		_, err := c.s.Leases.Release(c.Context(), []lease.Ref{c.worker})
		c.must(err)
		if got := c.maintain("rescue many", 2, nil); got.Rescued < n*3/4 {
			c.Errorf("rescued %d of %d", got.Rescued, n)
		}
	}
	c.worker = own
	c.enqueue(task.Spec{Queue: "rescue", Kind: "k"})
	if n := len(c.fetch("rescue", 10).Tasks); n == 0 {
		c.Error("nothing is given beside very many suspects")
	}
}

// acting is what operators do to a whole queue, a thousand at a time: drain and clear are made of these.
func (c *crowd) acting() {
	c.all(2*c.n, task.Spec{Queue: "acts", Kind: "k"})
	c.copies(c.enqueue(task.Spec{Queue: "acts", Kind: "k", Limit: &task.Limit{Key: "acts", Max: 100}})[0].ID, 2*c.n, "state=2")
	low := -3
	for _, a := range []driver.OpRequest{
		{Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}, {Operation: driver.OpPromote}, {Operation: driver.OpMove, Queue: "moved"}, {Operation: driver.OpMove, Queue: "acts"},
		{Operation: driver.OpDiscard}, {Operation: driver.OpRetry}, {Operation: driver.OpCancel}, {Operation: driver.OpDelete},
	} {
		var tasks []driver.Task
		c.must(inside(c.s).write(c.Context(), func(tx *sql.Tx) error {
			ids, err := query(c.Context(), tx, readID, "SELECT t.id FROM dibs_tasks t JOIN dibs_subqueues l ON l.id = t.subqueue WHERE l.queue = 'acts' ORDER BY t.id DESC LIMIT ?", min(c.n/5, 1000))
			for _, id := range ids {
				tasks = append(tasks, driver.Task{ID: id})
			}
			return err
		}))
		if a.Operation == driver.OpMove && a.Queue == "acts" {
			a.Queue = "elsewhere"
		}
		for _, t := range tasks {
			a.IDs = append(a.IDs, t.ID)
		}
		c.step(string(a.Operation)+" many", 2*mostAtOnce, func() { _, err := c.s.Tasks.Operate(c.Context(), a); c.must(err) })
	}
	c.step("pause", 0, func() { c.must(c.s.Tasks.Pause(c.Context(), driver.Pause{Queue: "acts"})) })
	c.step("fetch of what is paused", 0, func() { c.fetch("acts", 100) })
	c.step("resume", 0, func() { _, err := c.s.Tasks.Resume(c.Context(), "acts", "", "t"); c.must(err) })
	c.step("fetch of what is paused no more", 100, func() { c.fetch("acts", 100) })
}

// looking is what readers do. They hold up nobody, since each has a state of the database to itself: a list by
// what is in no index may look at all tasks, a count at all there are.
func (c *crowd) looking() {
	for what, f := range map[string]driver.Filter{"all": {}, "the last": {After: 1 << 40}, "waiting": {States: task.Waits(true)},
		"the newest": {Newest: true}, "the newest waiting": {States: task.Waits(true), Newest: true}, "lately": {Since: time.Now()}} {
		f.Max = 1000
		c.step("list "+what, 1000, func() { _, err := c.s.Tasks.Tasks(c.Context(), f); c.must(err) })
	}
	c.step("list workers", 100, func() { _, err := c.s.Tasks.Workers(c.Context()); c.must(err) })
}

// unused are limits that nobody uses any more.
func (c *crowd) unused() {
	c.must(inside(c.s).write(c.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?) INSERT INTO dibs_limits (hash, key, max) SELECT randomblob(16), n, 1 FROM i", c.n)
		return err
	}))
	c.maintain("limits that nobody uses", 1, nil)
}

func (c *crowd) retention() {
	keep := map[task.State]time.Duration{}
	for _, s := range task.States {
		if s.Final() {
			keep[s] = 0
		}
	}
	if got := c.maintain("retention", 1, keep); got.Deleted < c.n {
		c.Errorf("%d were deleted", got.Deleted)
	}
}

// A fetch of more than one transaction may give keeps the order, and gives one suspect at most.
// Holds: promises 18, 19, 26.
func TestAFetchGoesInPasses(t *testing.T) {
	was := mostAtOnce
	mostAtOnce = 10
	t.Cleanup(func() { mostAtOnce = was })
	c := &crowd{TB: t}
	c.open()
	limited := task.Spec{Queue: "q", Kind: "k", Limit: &task.Limit{Key: "l", Max: 15}}
	suspects := make([]task.Spec, 25)
	for i := range suspects {
		suspects[i] = task.Spec{Queue: "q", Kind: "k"}
	}
	c.enqueue(suspects...)
	if n := len(c.fetch("q", 25).Tasks); n != 25 {
		t.Fatalf("%d of 25 were given", n)
	}
	c.must(c.s.Queue.Deregister(t.Context(), c.worker))
	var want []task.ID
	for range 20 {
		for _, e := range c.enqueue(limited, task.Spec{Queue: "q", Kind: "k"}) {
			want = append(want, e.ID)
		}
	}
	var got []task.ID
	first, held := 0, 0
	f := c.fetch("q", 1000)
	for _, x := range f.Tasks {
		if x.Suspect {
			first++
			continue
		}
		if x.Limit != nil {
			held++
		}
		got = append(got, x.ID)
	}
	// Every second one has the limit, of which 15 are free.
	if first != 1 || held != 15 || len(got) != 35 || !slices.IsSorted(got) || !slices.Equal(got[:30], want[:30]) {
		t.Errorf("given: %d suspects, %d of the limit, %v of %v", first, held, got, want)
	}
	c.finish(f.Tasks)
	if n := len(c.fetch("q", 1000).Tasks); n != 5+1 {
		t.Errorf("%d are given then, want the rest of the limit and a suspect", n)
	}
}

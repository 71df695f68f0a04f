package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	queuedriver "github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// BenchmarkLongestStep tells for how long one transaction of each sort lasts at most, and how much of a processor the
// server takes for its session meanwhile, which depends less on what else the machine does. A transaction has its
// locks until it ends: 50 ms is the goal at a million tasks. A call may consist of several. Run it with -benchtime 1x;
// DIBS_TEST_LONG=1 is a million.
func BenchmarkLongestStep(b *testing.B) {
	longest := map[string]spell{}
	for b.Loop() {
		c := &crowded{TB: b, n: testsize.Of(1500, 50_000), longest: longest}
		c.run(queueConfig(b, testserver.StartMariaDB(b).URL), 20*c.n)
	}
	byTime := slices.SortedFunc(maps.Keys(longest), func(x, y string) int { return cmp.Compare(longest[y].cpu, longest[x].cpu) })
	var text strings.Builder
	for i, what := range byTime {
		if i%5 == 0 { // a benchmark's log has ten lines
			text.WriteByte('\n')
		}
		h := longest[what]
		fmt.Fprintf(&text, "%s: %.1f ms, %.1f of a processor; ", what, float64(h.wall.Microseconds())/1000, float64(h.cpu.Microseconds())/1000)
	}
	b.Log(text.String())
	b.ReportMetric(float64(longest[byTime[0]].cpu.Microseconds())/1000, "ms-longest")
}

// A spell is how long something took, and how much of a processor.
type spell struct{ wall, cpu time.Duration }

func (s spell) or(x spell) spell { return spell{max(s.wall, x.wall), max(s.cpu, x.cpu)} }

// crowded is a server with very many tasks, and what can be done there.
type crowded struct {
	testing.TB
	s       *store.Store
	db      *sql.DB
	w       *stopwatch
	n       int // how many tasks a step has to do with
	worker  lease.Ref
	longest map[string]spell
}

func (c *crowded) must(err error) {
	if err != nil {
		c.Helper()
		c.Fatal(err)
	}
}

func (c *crowded) step(what string, do func()) {
	c.Helper()
	c.purged()
	c.w.reset()
	do()
	c.longest[what] = c.longest[what].or(c.w.longest())
}

// purged waits until the server has purged what the steps before have left, or gets no further: it is not to count
// for this one.
func (c *crowded) purged() {
	for left, stuck := int64(math.MaxInt64), 0; left > 100 && stuck < 20; {
		var n int64
		c.must(c.db.QueryRowContext(c.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").Scan(new(string), &n))
		if stuck++; n < left {
			left, stuck = n, 0
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *crowded) run(config store.Config, neighbours int) {
	u, err := url.Parse(config.URL.String())
	c.must(err)
	connector, err := connectorOf(u)
	c.must(err)
	c.w = &stopwatch{Connector: connector}
	pool := sql.OpenDB(c.w)
	pool.SetMaxIdleConns(4)
	c.Cleanup(func() { _ = pool.Close() })
	c.s, err = New(c.Context(), pool, config)
	c.must(err)
	c.db = raw(c, config.URL.String(), nil)
	c.must(c.db.QueryRowContext(c.Context(), "SELECT @@pid_file").Scan(&c.w.server))
	pid, err := os.ReadFile(c.w.server)
	c.must(err)
	c.w.server = "/proc/" + strings.TrimSpace(string(pid)) + "/task"
	c.worker = joined(c, c.s)
	for _, s := range []task.Spec{spec(kindOf("unknown")), spec(kindOf("k"), func(s *task.Spec) { s.Queue = "other" }), spec(func(s *task.Spec) { s.Delay = 100 * time.Hour })} {
		c.all(neighbours/4, s, nil)
	}
	c.all(neighbours/4, spec(kindOf("unknown")), map[string]string{"state": "5", "done": "5", "ended": "1"})
	for _, f := range []func(){c.plain, c.due, c.limit, c.kinds, c.displacing, c.lapsing, c.rescuing, c.acting, c.retention} {
		f()
	}
}

// all is n tasks alike.
func (c *crowded) all(n int, s task.Spec, said map[string]string) task.ID {
	c.Helper()
	id := enqueue(c, c.s.Queue, s)[0].ID
	for n--; n > 0; n -= 50_000 {
		like(c, c.db, id, min(n, 50_000), said)
	}
	return id
}

func (c *crowded) fetch(queueName string, most int) []queuedriver.Fetched {
	c.Helper()
	f, err := c.s.Queue.Fetch(c.Context(), queuedriver.FetchRequest{Worker: c.worker, Queues: []string{queueName}, Max: most, Suspects: true, Crashers: true})
	if c.must(err); f.Gone {
		c.Fatal("the worker's lease has lapsed")
	}
	return f.Tasks
}

// work fetches and finishes a few batches.
func (c *crowded) work(what, queueName string) {
	c.Helper()
	for _, size := range []int{1, 10, 1000, 1000, 1000} {
		var got []queuedriver.Fetched
		c.step(what+": fetch", func() { got = c.fetch(queueName, size) })
		if len(got) == 0 {
			return
		}
		c.step(what+": finish", func() { complete(c, c.s.Queue, c.worker, got...) })
	}
}

func (c *crowded) maintain(what string, r queuedriver.MaintainRequest) {
	c.Helper()
	for more := true; more; {
		c.step(what, func() {
			done, err := c.s.Queue.Maintain(c.Context(), r)
			c.must(err)
			more = done.More
		})
	}
}

func in(queueName string, with ...func(*task.Spec)) task.Spec {
	return spec(append(with, func(s *task.Spec) { s.Queue = queueName })...)
}

func (c *crowded) plain() {
	for what, with := range map[string]func(i int, s *task.Spec){
		"plain":           func(int, *task.Spec) {},
		"unique":          func(i int, s *task.Spec) { s.Unique = &task.Unique{Key: fmt.Sprint(i), Until: task.UntilFinished} },
		"behind a limit":  func(_ int, s *task.Spec) { s.Limit = &task.Limit{Key: "e", Max: 10} },
		"of limits apart": func(i int, s *task.Spec) { s.Limit = &task.Limit{Key: fmt.Sprint(i), Max: 1} },
	} {
		name := strings.ReplaceAll(what, " ", "-")
		for range 3 {
			batch := make([]task.Spec, 1000)
			for i := range batch {
				batch[i] = in(name, func(s *task.Spec) { with(i, s) })
			}
			c.step("enqueue 1,000 "+what, func() { enqueue(c, c.s.Queue, batch...) })
		}
		c.work(what, name)
	}
	runs := c.fetch("plain", 1000)
	refs := make([]queuedriver.Ref, len(runs))
	for i := range runs {
		refs[i] = runs[i].Ref
	}
	if len(refs) > 0 {
		c.step("start 1,000", func() { _, err := c.s.Queue.Start(c.Context(), c.worker, refs); c.must(err) })
	}
}

// due has many come due at one instant.
func (c *crowded) due() {
	late := func(s *task.Spec) { s.Delay = time.Hour }
	at := map[string]string{"due_at": "1", "run_at": "1"}
	c.all(c.n, in("due", late), at)
	c.all(c.n, in("due-limited", late, limitOf("due", 10)), at)
	c.work("due at one instant", "due")
	c.work("due at one instant, behind a limit", "due-limited")
	for range 20 {
		c.step("due at one instant: maintain", func() { _, err := c.s.Queue.Maintain(c.Context(), queuedriver.MaintainRequest{}); c.must(err) })
	}
}

func (c *crowded) limit() {
	of := limitOf("l", 1)
	first := in("limited", of)
	c.all(c.n, first, map[string]string{"state": "2"})
	set := func(what string, slots int) {
		c.step(what, func() { _, err := c.s.Tasks.SetLimit(c.Context(), first.Limit.Hash("k"), slots, "t"); c.must(err) })
	}
	c.work("a limit of one", "limited")
	set("raise a limit", 10*c.n)
	c.work("raised", "limited")
	set("lower a limit", 1)
	c.work("lowered", "limited")
}

// kinds has a limit that tasks of many kinds name.
func (c *crowded) kinds() {
	of := &task.Limit{Key: "wide", Shared: true}
	for i := range 20 {
		c.all(c.n/20, in("wide", kindOf(fmt.Sprint("k", i)), func(s *task.Spec) { s.Limit = of }), map[string]string{"state": "2"})
	}
	set := func(what string, slots int) {
		c.step(what, func() { _, err := c.s.Tasks.SetLimit(c.Context(), of.Hash(""), slots, "t"); c.must(err) })
	}
	c.work("a limit of many kinds", "wide")
	set("raise a limit of many kinds", 10*c.n)
	c.work("a raised limit of many kinds", "wide")
	set("lower a limit of many kinds", 1)
	c.work("a lowered limit of many kinds", "wide")
}

func (c *crowded) displacing() {
	displacing := in("displace", func(s *task.Spec) { s.Limit = &task.Limit{Key: "d", Max: 1, OnContention: task.Displace} })
	id := enqueue(c, c.s.Queue, displacing)[0].ID
	c.fetch("displace", 1)
	like(c, c.db, id, c.n, map[string]string{"state": "1", "holder": "0", "worker": "0"})
	displacing.Priority = 9
	last := enqueue(c, c.s.Queue, displacing)[0].ID
	for range c.n {
		c.step("supersede: fetch", func() { c.fetch("displace", 10) })
		if x, _, _, err := c.s.Tasks.Task(c.Context(), last); err != nil || x.State == task.Blocked {
			c.must(err)
			return
		}
	}
}

func (c *crowded) lapsing() {
	c.all(c.n, in("expires", func(s *task.Spec) { s.ExpiresAt = time.Now().Add(time.Hour) }), map[string]string{"expires": "1", "lapses": "1"})
	c.step("fetch of what has expired", func() { c.fetch("expires", 100) })
	c.all(c.n, in("windows", func(s *task.Spec) { s.Delay = time.Hour }), map[string]string{"state": "5", "done": "5", "ended": "1", "due_at": "0", "win": "2"})
	c.maintain("expiries and windows", queuedriver.MaintainRequest{})
}

// rescuing ends workers with ten thousand tasks, half of them behind a limit.
func (c *crowded) rescuing() {
	n, own := min(c.n, 10_000), c.worker
	for _, leaves := range []bool{true, false} {
		c.worker = joined(c, c.s)
		c.all(n/2, in("rescue"), nil)
		c.all(n/2, in("rescue", limitOf("r", n)), map[string]string{"state": "2"})
		for got := 0; got < n; {
			some := len(c.fetch("rescue", 1000))
			if got += some; some <= 1 {
				break
			}
		}
		if leaves {
			c.step("leave with many tasks", func() { c.must(c.s.Queue.Deregister(c.Context(), c.worker)) })
			continue
		}
		release(c, c.s, c.worker)
		c.maintain("rescue many", queuedriver.MaintainRequest{})
	}
	c.worker = own
}

// acting is what operators do to a whole queue, a thousand at a time.
func (c *crowded) acting() {
	low := -3
	for _, limited := range []bool{false, true} {
		with, what := func(*task.Spec) {}, ""
		if limited {
			with, what = limitOf("acts", 100), ", behind a limit"
		}
		id := c.all(c.n, in("acts", with), nil)
		var ids []task.ID
		for i := range 1000 {
			ids = append(ids, id+task.ID(i+1))
		}
		for _, a := range []queuedriver.OpRequest{
			{Operation: queuedriver.OpEdit, Edit: queuedriver.Edit{Priority: &low}}, {Operation: queuedriver.OpPromote}, {Operation: queuedriver.OpMove, Queue: "moved"},
			{Operation: queuedriver.OpDiscard}, {Operation: queuedriver.OpRetry}, {Operation: queuedriver.OpCancel}, {Operation: queuedriver.OpDelete},
		} {
			a.IDs = ids
			c.step(string(a.Operation)+" 1,000"+what, func() { _, err := c.s.Tasks.Operate(c.Context(), a); c.must(err) })
		}
	}
	c.step("pause", func() { c.must(c.s.Tasks.Pause(c.Context(), queuedriver.Pause{Queue: "acts"})) })
	c.step("resume", func() { _, err := c.s.Tasks.Resume(c.Context(), "acts", "", "t"); c.must(err) })
}

func (c *crowded) retention() {
	c.maintain("retention", queuedriver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0, task.Discarded: 0, task.Canceled: 0, task.Crashed: 0, task.Failed: 0}})
}

// A stopwatch notes how long transactions of a pool last: from the first byte of a packet that begins one to the last
// answer of the one that ends it. Packets that only read are left out.
type stopwatch struct {
	driver.Connector
	server string // the directory of its threads
	mu     sync.Mutex
	most   spell
}

func (w *stopwatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = spell{}
}

func (w *stopwatch) longest() spell {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// cpu is what a thread of the server has taken of a processor.
func (w *stopwatch) cpu(thread int64) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("%s/%d/schedstat", w.server, thread))
	first, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(n)
}

func (w *stopwatch) note(c *timedConn) {
	took := spell{time.Since(c.since), w.cpu(c.thread) - c.cpu}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = w.most.or(took)
}

func (w *stopwatch) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	timed := &timedConn{mysqlConn: c.(mysqlConn), w: w}
	timed.thread, err = timed.ofServer(ctx)
	return timed, err
}

// ofServer is the thread of the server that serves the connection.
func (c *timedConn) ofServer(ctx context.Context) (int64, error) {
	r, err := c.mysqlConn.QueryContext(ctx, "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()", nil)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	got := make([]driver.Value, 1)
	if err := r.Next(got); err != nil {
		return 0, err
	}
	return strconv.ParseInt(fmt.Sprintf("%v", got[0]), 10, 64)
}

type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type timedConn struct {
	mysqlConn
	w      *stopwatch
	thread int64     // of the server
	since  time.Time // when it began to change or lock something; zero outside of a transaction
	cpu    time.Duration
	open   bool // the transaction goes on in another packet
}

func (c *timedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	if c.since.IsZero() && (has("DELETE FROM") || has("START TRANSACTION") && has("FOR UPDATE", "INSERT INTO", "UPDATE dibs")) {
		c.cpu = c.w.cpu(c.thread)
		c.since = time.Now()
	}
	c.open = (c.open || has("START TRANSACTION")) && !has("ROLLBACK; ", "COMMIT; ")
	r, err := c.mysqlConn.QueryContext(ctx, text, args)
	if err != nil {
		c.since, c.open = time.Time{}, false
		return nil, err
	}
	return timedRows{r.(rowSets), c}, nil
}

type rowSets interface {
	driver.Rows
	driver.RowsNextResultSet
}

type timedRows struct {
	rowSets
	c *timedConn
}

func (r timedRows) Close() error {
	err := r.rowSets.Close()
	if c := r.c; !c.open && !c.since.IsZero() {
		c.w.note(c)
		c.since = time.Time{}
	}
	return err
}

package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

var twinPromises = []promise{
	// Holds: promise 23.
	{"whatever is asked is answered, kept and counted as in memory", asInMemory},
}

// Twins are the store under test and the memory store, the reference, of which the same random things are asked
// one after the other. After each of them they must have answered the same, and must look the same.
//
// What is each store's own is not compared, or not as it is:
//
//   - A task goes by the place at which it was taken in, since ids and tokens are a store's own. So are the
//     instants at which it does something. All those that are asked for lie a quarter of an hour apart, so that
//     an instant is known by the quarter that it is next to.
//   - When an expired task is ended, and whether it is blocked meanwhile, on MariaDB even where it is the next:
//     so none expires.
//   - Whether those who stand behind a suspect that may not be given are passed over with it, or given: so while one
//     with a limit waits, whatever is first may be given, and only that.
//   - Where a task of a batch stands is told as of when it was met, or as of the end of the batch: so that is
//     compared for one alone.
//   - PostgreSQL takes in tasks of one key in one batch one after the other, with ids that come after all others': so
//     in a batch those of a key ask for the same.
//   - Whether a task under a limit is told as available or as blocked until a fetch comes by, which decides: so
//     both are one here.
//   - How long a limit under which there is no task any more is remembered: so what SetLimit answers is passed over.
//   - A run is ended once: what is answered to an end that is reported again has promises of its own.
type differential struct {
	*testing.T
	rng   *rand.Rand
	both  [2]*subject
	began time.Time
	n     int      // tasks that were declared
	asked []string // all that was, for whoever looks into a difference
	wary  bool     // a suspect with a limit waits
}

type subject struct {
	*world
	worker lease.Ref
	ids    []task.ID // of its tasks, as they were taken in
	runs   []twinRun // which have not been ended; some are another worker's by now
}

type twinRun struct {
	worker lease.Ref
	driver.Ref
}

// DIBS_TEST_SEED asks for the walk of a seed, DIBS_TEST_LONG for many long ones that nobody has walked before;
// else they are the same ones each time, so that what fails is what was changed.
func asInMemory(w *world) {
	walks, steps := testsize.Of(1, 12), testsize.Of(150, 400)
	seeds := make([]uint64, walks)
	for i := range seeds {
		if seeds[i] = uint64(i); testsize.Long() {
			seeds[i] = rand.Uint64()
		}
	}
	if v := os.Getenv("DIBS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		w.check("DIBS_TEST_SEED", err)
		seeds = []uint64{n}
	}
	for _, seed := range seeds {
		w.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			differentialOf(newWorld(t, w.open, w.config.URL.String()), seed).walk(steps)
		})
	}
}

func differentialOf(w *world, seed uint64) *differential {
	reference := *w
	reference.s = memory.New(memory.Options{MaxTTL: time.Hour}).Store()
	return &differential{T: w.T, rng: rand.New(rand.NewPCG(seed, seed)), both: [2]*subject{{world: w}, {world: &reference}}, began: time.Now().UTC().Truncate(time.Second)}
}

func (m *differential) walk(steps int) {
	m.joins()
	may := []func(){m.enqueues, m.enqueues, m.enqueues, m.fetches, m.fetches, m.starts, m.ends, m.ends, m.acts, m.acts}
	for range steps {
		if m.oneIn(12) {
			pick(m.rng, m.leaves, m.dies, m.limits, m.pauses, m.maintains)()
		} else {
			pick(m.rng, may...)()
		}
		m.compare()
	}
}

func (m *differential) oneIn(n int) bool { return m.rng.IntN(n) == 0 }

// asks notes what is asked.
func (m *differential) asks(what string, of ...any) {
	m.asked = append(m.asked, fmt.Sprintf(what, of...))
}

func (m *differential) text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

// same fails unless both have the same.
func (m *differential) same(what string, of func(*subject) any) {
	m.Helper()
	var said [2]string
	for i, t := range m.both {
		said[i] = m.text(of(t))
	}
	if got, want := said[0], said[1]; got != want {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		from := max(0, at-400)
		m.Fatalf("%s differ from here: %.200s\ngot  %.1200s\nwant %.1200s\nDIBS_TEST_SEED repeats it. What was asked:\n%s",
			what, want[at:], got[from:], want[from:], strings.Join(m.asked, "\n"))
	}
}

// nth is the place of a task among those that were taken in; 0 is none.
func (t *subject) nth(id task.ID) task.ID {
	if id == 0 {
		return 0
	}
	if i := slices.Index(t.ids, id); i >= 0 {
		return task.ID(i + 1)
	}
	return -1
}

// standing is a state in which those that are available or blocked are one.
func standing(s task.State) task.State {
	if s == task.Blocked {
		return task.Available
	}
	return s
}

// quarter is the quarter of an hour that an instant is next to.
func (m *differential) quarter(t *time.Time) {
	if !t.IsZero() {
		*t = m.began.Add(t.Sub(m.began).Round(15 * time.Minute))
	}
}

// joins gives both a worker.
func (m *differential) joins() {
	m.n++
	for _, t := range m.both {
		t.worker = t.server(t.s)
		t.check("Join", t.s.Queue.Register(t.ctx, driver.Process{Lease: t.worker, Host: fmt.Sprint("h", m.n), PID: 1, Queues: []string{"a", "b"}}))
		t.beat(t.s, t.worker)
	}
}

func (m *differential) leaves() {
	m.asks("leave")
	for _, t := range m.both {
		t.check("Leave", t.s.Queue.Deregister(t.ctx, t.worker))
	}
	m.joins()
}

func (m *differential) dies() {
	m.asks("die")
	for _, t := range m.both {
		t.lapse(t.s, t.worker)
	}
	m.maintains()
	m.joins()
}

func (m *differential) maintains() {
	m.asks("maintain")
	m.same("what Maintain did", func(t *subject) any {
		d := t.maintain()
		return []int{d.Rescued, d.Crashed, d.Repaired}
	})
}

func (m *differential) enqueues() {
	specs := make([]task.Spec, pick(m.rng, 1, 1, 2, 3, 5))
	like := m.spec()
	for i := range specs {
		specs[i] = m.spec()
		if m.oneIn(3) {
			specs[i] = like.Clone()
		}
		if u := specs[i].Unique; slices.ContainsFunc(specs[:i], func(s task.Spec) bool {
			return u != nil && s.Unique != nil && s.Unique.Key == u.Key && *s.Unique != *u
		}) {
			specs[i].Unique = nil
		}
		m.n++
		specs[i].Args = json.RawMessage(strconv.Itoa(m.n))
	}
	m.asks("enqueue %s", m.text(specs))
	m.same("answers to Enqueue", func(t *subject) any {
		answers := t.enqueue(t.s, specs...)
		for i, a := range answers {
			if a.Answer == task.New {
				t.ids = append(t.ids, a.ID)
			}
			answers[i].ID = t.nth(a.ID)
			if len(answers) > 1 {
				answers[i].State = ""
			}
			answers[i].State = standing(answers[i].State)
		}
		return answers
	})
}

func (m *differential) spec() task.Spec {
	s := task.Spec{Queue: pick(m.rng, "a", "b"), Kind: pick(m.rng, "k", "l"), Priority: pick(m.rng, 0, 0, -9, 9, 3), Delay: pick(m.rng, 0, 0, time.Hour)}
	s.MaxCrashes, s.MaxAttempts = pick(m.rng, 0, 1, 2), pick(m.rng, 0, 0, 3)
	switch m.rng.IntN(6) {
	case 0:
		s.RunAt = m.began.Add(-time.Hour)
	case 1:
		s.RunAt = m.began.Add(time.Hour)
	}
	if m.oneIn(8) {
		s.ExpiresAt = m.began.Add(5 * time.Hour)
	}
	if m.oneIn(3) {
		s.Limit = &task.Limit{Key: pick(m.rng, "0", "1", "2"), Shared: m.oneIn(2), Max: 1 + m.rng.IntN(3), OnContention: pick(m.rng, task.Wait, task.Wait, task.Discard, task.Displace)}
	}
	if m.oneIn(5) {
		s.Tags = []string{pick(m.rng, "s", "t")}
	}
	s.Unique = m.unique()
	if s.Unique != nil && s.Unique.Again == task.Debounce && s.Delay == 0 {
		s.Delay = time.Hour
	}
	return s
}

func (m *differential) unique() *task.Unique {
	u := &task.Unique{Key: pick(m.rng, "0", "1", "2", "3"), Shared: m.oneIn(3)}
	switch m.rng.IntN(7) {
	case 0, 1:
		u.Window = pick(m.rng, 0, time.Hour, 2*time.Hour)
	case 2, 3:
		u.Until, u.Again = task.UntilStarted, pick(m.rng, task.Refuse, task.Replace)
	case 4:
		u.Until, u.Again, u.MaxWait = task.UntilStarted, task.Debounce, pick(m.rng, 0, 30*time.Minute, 45*time.Minute)
	default:
		return nil
	}
	return u
}

func (m *differential) fetches() {
	r := driver.FetchRequest{Queues: pick(m.rng, []string{"a"}, []string{"b"}, []string{"b", "a"}), Kinds: pick(m.rng, nil, []string{"k"}, []string{"l"}),
		Max: 1 + m.rng.IntN(4), Suspects: !m.oneIn(4), Crashers: !m.oneIn(3)}
	if m.wary {
		r.Max, r.Suspects, r.Crashers = 1, true, true
	}
	m.asks("fetch %d of %v in %v, suspects %v, crashers %v", r.Max, r.Kinds, r.Queues, r.Suspects, r.Crashers)
	m.same("what is fetched", func(t *subject) any {
		r := r
		r.Worker = t.worker
		f := t.fetchWith(t.s, r)
		for i := range f.Tasks {
			x := &f.Tasks[i]
			t.runs = append(t.runs, twinRun{t.worker, x.Ref})
			x.ID, x.Token = t.nth(x.ID), 0
			m.quarter(&x.Enqueued)
			m.quarter(&x.RunAt)
		}
		m.quarter(&f.Now)
		f.NextDue = time.Time{} // a hint
		return f
	})
}

func (m *differential) starts() {
	if len(m.both[0].runs) == 0 {
		return
	}
	i := m.rng.IntN(len(m.both[0].runs))
	m.asks("start %d", m.both[0].nth(m.both[0].runs[i].ID))
	m.same("answers to Start", func(t *subject) any { return t.begin(t.runs[i].worker, t.runs[i].Ref) })
}

func (m *differential) ends() {
	if len(m.both[0].runs) == 0 {
		return
	}
	i := m.rng.IntN(len(m.both[0].runs))
	c := driver.Completion{Verdict: driver.Verdict(1 + m.rng.IntN(7)), Outcome: pick(m.rng, "", "x"), Delay: time.Hour, Reason: "r", Error: "e", Started: m.began, Ended: m.began}
	if m.oneIn(3) {
		c.Verdict = driver.Success
	}
	m.asks("end %d, verdict %d, outcome %q", m.both[0].nth(m.both[0].runs[i].ID), c.Verdict, c.Outcome)
	m.same("answers to Finish", func(t *subject) any {
		c := c
		c.Ref = t.runs[i].Ref
		return t.finish(t.runs[i].worker, c)
	})
	for _, t := range m.both {
		t.runs = slices.Delete(t.runs, i, i+1)
	}
}

func (m *differential) acts() {
	priority, at := m.rng.IntN(5), m.began.Add(time.Duration(m.rng.IntN(3)-1)*time.Hour)
	a := driver.OpRequest{Operation: pick(m.rng, driver.OpRetry, driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit, driver.OpDelete), By: "me"}
	switch a.Operation {
	case driver.OpMove:
		a.Queue = pick(m.rng, "a", "b")
	case driver.OpEdit:
		a.Edit = pick(m.rng, driver.Edit{RunAt: &at}, driver.Edit{RunAt: &at, Priority: &priority})
	}
	all := len(m.both[0].ids) + 1 // and one that is nobody's
	some := pick(m.rng, all, min(all, 12))
	var which []int
	for _, i := range m.rng.Perm(some)[:min(some, 4)] {
		which = append(which, all-1-i) // the younger ones have not ended yet
	}
	m.asks("%s of %v, to queue %q, edit %s", a.Operation, which, a.Queue, m.text(a.Edit))
	m.same("answers to Act", func(t *subject) any {
		a := a
		for _, i := range which {
			a.IDs = append(a.IDs, append(t.ids, 1<<40)[i])
		}
		answers := t.act(a)
		for i := range answers {
			answers[i].ID, answers[i].Other, answers[i].State = t.nth(answers[i].ID), t.nth(answers[i].Other), standing(answers[i].State)
		}
		return answers
	})
}

func (m *differential) limits() {
	l, n := task.Limit{Key: pick(m.rng, "0", "1", "2"), Shared: m.oneIn(2)}, m.rng.IntN(4)
	m.asks("limit %v to %d", l, n)
	for _, t := range m.both {
		_, err := t.s.Tasks.SetLimit(t.ctx, l.Hash("k"), n, "me")
		t.check("SetLimit", err)
	}
}

// pauses pauses something, or resumes all.
func (m *differential) pauses() {
	p := driver.Pause{Queue: pick(m.rng, "", "a", "b"), Kind: pick(m.rng, "", "k", "l"), By: "me"}
	m.asks("resume all, or pause %q %q", p.Queue, p.Kind)
	m.same("pauses", func(t *subject) any {
		held, err := t.s.Tasks.Pauses(t.ctx)
		t.check("Pauses", err)
		for _, p := range held {
			t.resume(p.Queue, p.Kind, true)
		}
		if len(held) == 0 {
			t.pauseQueue(p)
		}
		return len(held)
	})
}

// compare looks at all that both have.
func (m *differential) compare() {
	m.Helper()
	var all [2][]driver.Task
	for i, t := range m.both {
		all[i] = t.tasks(driver.Filter{Max: 1000})
	}
	m.same("ids", func(t *subject) any {
		var found []task.ID
		for _, x := range all[slices.Index(m.both[:], t)] {
			found = append(found, t.nth(x.ID))
		}
		return found
	})
	m.wary = slices.ContainsFunc(all[1], func(x driver.Task) bool { return x.Suspect && x.Limit != nil && x.State.Waiting() })
	for i, x := range all[0] {
		m.same(fmt.Sprintf("task %d", m.both[0].nth(x.ID)), func(t *subject) any { return m.view(t, all[slices.Index(m.both[:], t)][i]) })
	}
	for range min(3, len(all[0])) {
		i := m.rng.IntN(len(all[0]))
		m.same("a task with its attempts, and the slots of its limit,", func(t *subject) any { return m.detail(t, all[slices.Index(m.both[:], t)][i].ID) })
	}
	m.same("sub-queues", m.subs)
	m.same("counters", m.counters)
}

// view is a task without what is a store's own.
func (m *differential) view(t *subject, x driver.Task) any {
	x.ID, x.Token, x.State, x.Worker = t.nth(x.ID), 0, standing(x.State), driver.Process{Host: x.Worker.Host}
	for _, at := range []*time.Time{&x.Enqueued, &x.RunAt, &x.Started, &x.Ended} {
		m.quarter(at)
	}
	for i := range x.History {
		m.quarter(&x.History[i].Started)
		m.quarter(&x.History[i].Ended)
	}
	return x
}

func (m *differential) detail(t *subject, id task.ID) any {
	x, held, _ := t.find(id)
	var running []string
	for _, r := range held.Running {
		running = append(running, fmt.Sprint(t.nth(r.ID), r.Kind, r.Worker.Host))
	}
	slices.Sort(running)
	return []any{m.view(t, x), held.Key, held.Max, running}
}

func (m *differential) subs(t *subject) any {
	subs, err := t.s.Tasks.Queues(t.ctx)
	t.check("Queues", err)
	for i := range subs {
		m.quarter(&subs[i].Oldest)
		depth := map[task.State]int{}
		for state, n := range subs[i].Depth {
			depth[standing(state)] += n
		}
		subs[i].Depth = depth
	}
	return append([]driver.SubQueue{}, subs...)
}

func (m *differential) counters(t *subject) any {
	counts, err := t.s.Tasks.Counts(t.ctx, m.began.Add(-time.Hour), m.began.Add(time.Hour))
	t.check("Counts", err)
	sum := map[string]int64{}
	for _, c := range counts {
		sum[c.Queue+"/"+c.Kind+"/"+c.Name] += c.N
	}
	return sum
}

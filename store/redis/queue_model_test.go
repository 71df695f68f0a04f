package redis

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// Whatever is enqueued, in whatever batches, is answered and kept as the memory store does. Beyond the walk
// that all stores take in storetest, there are batches of more than a page, tasks that have expired, windows
// that are over at once, and an audit of all keys.
func TestBatchesAreAsInMemory(t *testing.T) {
	t.Parallel()
	for range 2 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		s, c := prepared(t, testserver.Redis(t))
		raw := rawClient(t, c)
		m := &differential{T: t, rng: rand.New(rand.NewPCG(seed, 1)), both: [2]*store.Store{s, memory.New(memory.Options{MaxTTL: time.Hour}).Store()},
			audit: func() { audit(t, s, raw, "dibs:{"+c.Namespace+"}:") }}
		m.walk()
	}
}

// differential are two stores that are asked the same.
type differential struct {
	*testing.T
	rng     *rand.Rand
	both    [2]*store.Store
	workers [2]lease.Ref
	runs    [][2]driver.Ref
	n       int
	audit   func()
}

func (m *differential) pick(n int) int { return m.rng.IntN(n) }

func (m *differential) same(what string, of func(i int) any) {
	m.Helper()
	a, b := of(0), of(1)
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		at := 0
		for at < min(len(x), len(y)) && x[at] == y[at] {
			at++
		}
		m.Fatalf("%s:\nredis  %.1500s\nmemory %.1500s", what, x[max(0, at-700):], y[max(0, at-700):])
	}
}

func (m *differential) walk() {
	for i, s := range m.both {
		req := request("w")
		req.TTL = 15 * time.Second
		m.workers[i] = acquire(m, s, req).Record.Ref()
		if err := s.Queue.Register(m.Context(), driver.Process{Lease: m.workers[i], Host: "h", PID: 1, Queues: []string{"a", "b"}}); err != nil {
			m.Fatal(err)
		}
	}
	plain := make([]task.Spec, 970+m.pick(32)) // what comes next is in two pages
	for i := range plain {
		plain[i] = task.Spec{Queue: "other", Kind: "o"}
	}
	m.enqueue(plain)
	for n := range 60 {
		m.step()
		if n%20 == 19 {
			m.compare(0)
		} else {
			m.compare(900) // the plain ones before it are nobody's
		}
		time.Sleep(200 * time.Microsecond)
		if m.pick(10) == 0 {
			m.audit()
			for i, s := range m.both {
				renew(m, s, m.workers[i])
			}
		}
	}
}

func (m *differential) enqueue(specs []task.Spec) {
	m.Helper()
	for i := range specs {
		if err := specs[i].Check(); err != nil {
			m.Fatalf("%v: %+v", err, specs[i])
		}
	}
	m.same("Enqueue", func(i int) any {
		a, err := m.both[i].Queue.Enqueue(m.Context(), specs)
		if err != nil {
			m.Fatal(err)
		}
		return a
	})
}

func (m *differential) step() {
	ctx := m.Context()
	switch n := m.pick(14); {
	case n < 7:
		size := 1 + m.pick(8)
		if m.pick(15) == 0 {
			size = 900 + m.pick(101)
		}
		specs := make([]task.Spec, size)
		form := m.spec()
		for i := range specs {
			specs[i] = m.spec()
			if m.pick(2) == 0 {
				specs[i] = form.Clone()
				if form.Unique != nil {
					specs[i].Unique.Key = map[task.Until]string{task.UntilStarted: "s"}[form.Unique.Until] + strconv.Itoa(m.pick(8))
				}
			}
			m.n++
			specs[i].Args = json.RawMessage(strconv.Itoa(m.n))
		}
		m.enqueue(specs)
	case n < 9:
		q, k, max := []string{"a", "b"}[m.pick(2)], []string{"k", "l"}[m.pick(2)], 1+m.pick(6)
		var refs [2][]driver.Ref
		m.same("Fetch", func(i int) any {
			f, err := m.both[i].Queue.Fetch(ctx, driver.FetchRequest{Worker: m.workers[i], Queues: []string{q}, Kinds: []string{k}, Max: max, Suspects: true, Crashers: true})
			if err != nil {
				m.Fatal(err)
			}
			ids := []any{}
			for _, x := range f.Tasks {
				refs[i] = append(refs[i], x.Ref)
				ids = append(ids, x.ID, string(x.Args), x.Unique, x.Limit, x.Priority, x.Tags)
			}
			return ids
		})
		for i := range refs[0] {
			m.runs = append(m.runs, [2]driver.Ref{refs[0][i], refs[1][i]})
		}
	case n < 12:
		if len(m.runs) == 0 {
			return
		}
		i := m.pick(len(m.runs))
		refs := m.runs[i]
		begin, v, delay := m.pick(2) == 0, driver.Verdict(1+m.pick(7)), time.Duration(m.pick(2))*time.Hour
		if m.pick(2) == 0 {
			v = driver.Success
		}
		if begin {
			m.same("Start", func(i int) any {
				st, err := m.both[i].Queue.Start(ctx, m.workers[i], []driver.Ref{refs[i]})
				if err != nil {
					m.Fatal(err)
				}
				return st
			})
			if m.pick(2) == 0 {
				return
			}
		}
		m.runs = slices.Delete(m.runs, i, i+1)
		m.same("Finish", func(i int) any {
			st, err := m.both[i].Queue.Finish(ctx, m.workers[i], []driver.Completion{{Ref: refs[i], Verdict: v, Outcome: "x", Delay: delay}})
			if err != nil {
				m.Fatal(err)
			}
			return st
		})
	case n < 13:
		acts := []driver.Operation{driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit}
		var ids []task.ID
		for range 6 {
			ids = append(ids, task.ID(1000+m.pick(max(m.n, 1))))
		}
		later := time.Now().Add(time.Duration(m.pick(3)-1) * time.Hour).Truncate(time.Second)
		act := driver.OpRequest{Operation: acts[m.pick(len(acts))], IDs: ids, Queue: "b", By: "t", Edit: driver.Edit{RunAt: &later}}
		m.same("Act", func(i int) any {
			a, err := m.both[i].Tasks.Operate(ctx, act)
			if err != nil {
				m.Fatal(err)
			}
			return a
		})
	default:
		m.same("Maintain", func(i int) any {
			d, err := m.both[i].Queue.Maintain(ctx, driver.MaintainRequest{})
			if err != nil {
				m.Fatal(err)
			}
			if d.Repaired > 0 {
				m.Fatalf("repaired %d", d.Repaired)
			}
			return 0
		})
	}
}

func (m *differential) spec() task.Spec {
	pick := m.pick
	s := task.Spec{Queue: []string{"a", "b"}[pick(2)], Kind: []string{"k", "l"}[pick(2)], Priority: []int{0, 0, -9, 9, 3}[pick(5)]}
	s.Delay = time.Duration(pick(3)/2) * time.Hour
	switch pick(6) {
	case 0:
		s.RunAt = time.Now().Add(-time.Hour).Truncate(time.Second)
	case 1:
		s.RunAt = time.Now().Add(time.Hour).Truncate(time.Second)
	}
	switch pick(6) {
	case 0:
		s.ExpiresAt = time.Now().Add(5 * time.Hour).Truncate(time.Second)
	case 1:
		if s.RunAt.IsZero() {
			s.ExpiresAt = time.Now().Add(-time.Second)
		}
	}
	if pick(4) == 0 {
		s.Limit = &task.Limit{Key: strconv.Itoa(pick(3)), Shared: pick(2) == 0, Max: 1 + pick(3), OnContention: []task.Contention{task.Wait, task.Wait, task.Discard, task.Displace}[pick(4)]}
	}
	if pick(5) == 0 {
		s.MaxCrashes = 1 + pick(3)
	}
	if pick(5) == 0 {
		s.Tags = []string{"t" + strconv.Itoa(pick(3))}
	}
	if pick(5) == 0 {
		s.MaxAttempts = 1 + pick(3)
	}
	key, shared := strconv.Itoa(pick(8)), pick(3) == 0
	switch pick(6) {
	case 0, 1:
		s.Unique = &task.Unique{Key: key, Shared: shared, Window: []time.Duration{0, time.Microsecond, time.Hour}[pick(3)]}
	case 2, 3:
		s.Unique = &task.Unique{Key: "s" + key, Shared: shared, Until: task.UntilStarted, Again: []task.Again{task.Refuse, task.Replace}[pick(2)]}
	case 4:
		if s.Delay == 0 {
			s.Delay = time.Hour
		}
		s.Unique = &task.Unique{Key: "s" + key, Shared: shared, Until: task.UntilStarted, Again: task.Debounce, MaxWait: []time.Duration{0, time.Microsecond, 30 * time.Minute}[pick(3)]}
	}
	return s
}

// compare looks at the tasks after one, and at all counts.
func (m *differential) compare(from task.ID) {
	m.Helper()
	var all [2][]driver.Task
	for i, s := range m.both {
		for after := from; ; {
			ts, err := s.Tasks.Tasks(m.Context(), driver.Filter{Max: 1000, After: after})
			if err != nil {
				m.Fatal(err)
			}
			all[i] = append(all[i], ts...)
			if len(ts) < 1000 {
				break
			}
			after = ts[len(ts)-1].ID
		}
	}
	if len(all[0]) != len(all[1]) {
		m.Fatalf("%d tasks, want %d", len(all[0]), len(all[1]))
	}
	for i := range all[0] {
		view := func(j int) any {
			x := all[j][i]
			near := func(t time.Time) any { return t.Add(10 * time.Minute).Truncate(20 * time.Minute) }
			return []any{x.ID, x.Queue, x.Kind, x.State, x.Args, x.Priority, x.Unique, x.Limit, x.Options, x.Attempts, x.Granted, x.Snoozes, x.Crashes, x.Reason, x.Stop, x.Front,
				x.ExpiresAt.IsZero(), x.Ended.IsZero(), near(x.RunAt), x.Suspect}
		}
		m.same("task", view)
	}
	m.same("Queues", func(i int) any {
		ls, err := m.both[i].Tasks.Queues(m.Context())
		if err != nil {
			m.Fatal(err)
		}
		out := []any{}
		for _, l := range ls {
			out = append(out, l.Queue, l.Kind, l.Depth)
		}
		return out
	})
	if m.Failed() {
		m.FailNow()
	}
}

// Who is idle is woken by what there is for him in a batch, and by nothing else.
func TestWakesOfUniqueBatches(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	w := joined(t, s, ttl)
	signs, err := s.Queue.Watch(t.Context(), []string{"q"})
	if err != nil {
		t.Fatal(err)
	}
	raw := rawClient(t, c)
	published := func() int64 {
		v, err := raw.InfoMap(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return calls(v["Commandstats"]["cmdstat_publish"])
	}
	idle := func(want int) {
		t.Helper()
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
		if err != nil || len(f.Tasks) != want {
			t.Fatalf("fetch: %d, %v, want %d", len(f.Tasks), err, want)
		}
	}
	u := func(queueName, key string, delay time.Duration) task.Spec {
		x := task.Spec{Queue: queueName, Kind: "k", Delay: delay, Unique: &task.Unique{Key: key}}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		return x
	}
	enqueue(t, s, u("other", "a", 0), u("other", "b", time.Hour))
	idle(0)
	before := published()
	enqueue(t, s, u("q", "a", 0), u("q", "b", 0), u("q", "a", time.Minute))
	if n := published() - before; n != 0 {
		t.Errorf("%d messages for duplicates", n)
	}
	enqueue(t, s, u("q", "a", 0), u("q", "c", 2*time.Hour))
	told(t, "what is next", signs)
	idle(0)
	before = published()
	enqueue(t, s, u("q", "d", 3*time.Hour), u("q", "c", 0))
	if n := published() - before; n != 0 {
		t.Errorf("%d messages for what comes after the next", n)
	}
	enqueue(t, s, u("q", "e", 4*time.Hour), u("q", "f", time.Hour))
	told(t, "what is sooner", signs)
	idle(0)
	r := u("q", "r", time.Hour)
	r.Unique.Until, r.Unique.Again = task.UntilStarted, task.Replace
	now := r.Clone()
	now.Delay = 0
	enqueue(t, s, r, now)
	told(t, "what was replaced", signs)
	idle(1)
}

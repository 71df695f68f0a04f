package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A crowd is workers that enqueue, fetch, finish, crash and maintain at the same time. What they were told is
// kept outside the store, and must fit together.
type crowd struct {
	*world
	mu       sync.Mutex
	new      map[task.ID]bool // acknowledged
	done     map[task.ID]int  // completions that were answered OK
	running  map[string]int   // by limit
	holders  map[string]int   // by unique key
	tokens   map[string]lease.Token
	enqueued int
}

const (
	crowdWorkers = 6
	crowdTasks   = 240
)

func randomCrowd(w *world) {
	seed := rand.Uint64()
	w.Logf("seed %d", seed)
	c := &crowd{world: w, new: map[task.ID]bool{}, done: map[task.ID]int{},
		running: map[string]int{}, holders: map[string]int{}, tokens: map[string]lease.Token{}}
	processes := []*store.Store{w.s, w.process(), w.process()}
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	together(crowdWorkers, func(i int) {
		one := &member{crowd: c, ctx: ctx, s: processes[i%3], rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		if err := one.work(); err != nil {
			w.Errorf("worker %d: %v", i, err)
		}
	})
	c.settled()
}

// member is one of the crowd.
type member struct {
	*crowd
	ctx  context.Context
	s    *store.Store
	rng  *rand.Rand
	ref  lease.Ref
	beat time.Time // when its lease was renewed
	runs []driver.Fetched
}

func (m *member) work() error {
	if err := m.join(); err != nil {
		return err
	}
	for !m.over() {
		err := m.renewed()
		switch n := m.rng.IntN(20); {
		case err != nil:
		case n < 5:
			err = m.enqueueSome()
		case n < 11:
			err = m.fetchSome()
		case n < 18:
			err = m.finishSome()
		case n < 19:
			err = m.crash()
		default:
			_, err = m.s.Queue.Maintain(m.ctx, driver.MaintainRequest{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// over says that everything that was taken in has been done.
func (m *member) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Failed() || m.enqueued >= crowdTasks && len(m.done) == len(m.new) && len(m.runs) == 0
}

func (m *member) join() error {
	r, err := m.s.Leases.Acquire(m.ctx, []lease.AcquireRequest{request(lease.OnceKey())})
	if err != nil {
		return err
	}
	m.ref, m.beat = r.Answers[0].Record.Ref(), time.Now()
	return m.s.Queue.Register(m.ctx, driver.Process{Lease: m.ref, Host: "h", Queues: []string{"q"}, Slots: 1})
}

// renewed keeps the member's lease live.
func (m *member) renewed() error {
	if time.Since(m.beat) < long/5 {
		return nil
	}
	m.beat = time.Now()
	r, err := m.s.Leases.Renew(m.ctx, []lease.RenewRequest{{Ref: m.ref, TTL: long}})
	if err == nil && r.Answers[0].Status != lease.OK {
		err = fmt.Errorf("a renewal was %v", r.Answers[0].Status)
	}
	return err
}

func (m *member) enqueueSome() error {
	m.mu.Lock()
	enough := m.enqueued >= crowdTasks
	m.enqueued += 5
	m.mu.Unlock()
	if enough {
		return nil
	}
	var specs []task.Spec
	for range 5 {
		s := some()
		s.Kind, s.Priority, s.MaxCrashes = fmt.Sprint("k", m.rng.IntN(2)), m.rng.IntN(3), 1000
		switch m.rng.IntN(3) {
		case 0:
			s.Unique = &task.Unique{Key: fmt.Sprint("u", m.rng.IntN(3)), Shared: true}
		case 1:
			n := 1 + m.rng.IntN(2)
			s.Limit = &task.Limit{Key: fmt.Sprint("l", n), Max: n, Shared: true}
		}
		if err := s.Check(); err != nil {
			return err
		}
		specs = append(specs, s)
	}
	answers, err := m.s.Queue.Enqueue(m.ctx, specs)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range answers {
		if a.Answer == task.New {
			m.new[a.ID] = true
			m.holds(&specs[i], 1)
		}
	}
	return err
}

func (m *member) fetchSome() error {
	f, err := m.s.Queue.Fetch(m.ctx, driver.FetchRequest{Worker: m.ref, Queues: []string{"q"}, Max: 1 + m.rng.IntN(6), Suspects: true, Crashers: true})
	if err != nil || f.Gone || f.Late {
		return fmt.Errorf("a fetch: gone %v, late %v: %w", f.Gone, f.Late, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range f.Tasks {
		if l := t.Limit; l != nil {
			if m.running[l.Key]++; m.running[l.Key] > l.Max {
				m.Errorf("%d run of a limit of %d", m.running[l.Key], l.Max)
			}
		}
		if what := fmt.Sprint(t.ID); t.Token <= m.tokens[what] {
			m.Errorf("task %d was given with token %d after %d", t.ID, t.Token, m.tokens[what])
		} else {
			m.tokens[what] = t.Token
		}
	}
	m.runs = append(m.runs, f.Tasks...)
	return nil
}

// holds counts who holds a unique key for certain: from the answer to its enqueue until its end is reported.
func (c *crowd) holds(s *task.Spec, n int) {
	if s.Unique == nil {
		return
	}
	if c.holders[s.Unique.Key] += n; c.holders[s.Unique.Key] > 1 {
		c.Errorf("%d tasks hold key %s", c.holders[s.Unique.Key], s.Unique.Key)
	}
}

// left is what has to be known before others can be told that the runs are over.
func (m *member) left(runs []driver.Fetched) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range runs {
		if t.Limit != nil {
			m.running[t.Limit.Key]--
		}
	}
}

func (m *member) finishSome() error {
	n := min(len(m.runs), 1+m.rng.IntN(4))
	runs := m.runs[:n]
	m.runs = m.runs[n:]
	if n == 0 {
		return nil
	}
	m.left(runs)
	var ends []driver.Completion
	for i := range runs {
		v := pick(m.rng, driver.Success, driver.Success, driver.Success, driver.Retry, driver.Return, driver.Snooze)
		ends = append(ends, driver.Completion{Ref: runs[i].Ref, Verdict: v})
		if v == driver.Success {
			m.mu.Lock()
			m.holds(&runs[i].Spec, -1)
			m.mu.Unlock()
		}
	}
	answers, err := finish(m.ctx, m.s, m.ref, ends)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range answers {
		if a != driver.OK {
			m.Errorf("Finish of task %d by who has it: %v", ends[i].ID, a)
		} else if ends[i].Verdict == driver.Success {
			m.done[ends[i].ID]++
		}
	}
	return err
}

// crash ends the worker's lease under its tasks, and lets it try to complete them all the same.
func (m *member) crash() error {
	runs, ref := m.runs, m.ref
	m.runs = nil
	m.left(runs)
	if _, err := m.s.Leases.Release(m.ctx, []lease.Ref{ref}); err != nil {
		return err
	}
	if m.rng.IntN(2) == 0 {
		if _, err := m.s.Queue.Maintain(m.ctx, driver.MaintainRequest{}); err != nil {
			return err
		}
	}
	for _, t := range runs {
		answers, err := finish(m.ctx, m.s, ref, []driver.Completion{{Ref: t.Ref, Verdict: driver.Success}})
		if err != nil {
			return err
		}
		if answers[0] != driver.Gone {
			m.Errorf("Finish of task %d by who had it: %v", t.ID, answers[0])
		}
	}
	return m.join()
}

// settled checks what the store says in the end.
func (c *crowd) settled() {
	for id, n := range c.done {
		if n != 1 {
			c.Errorf("task %d was completed %d times", id, n)
		}
	}
	all := c.tasks(driver.Filter{Max: 1000})
	equal(c.world, "tasks that were taken in", len(all), len(c.new))
	for _, t := range all {
		if !c.new[t.ID] || t.State != task.Succeeded {
			c.Errorf("task %d is %s; it was acknowledged: %v", t.ID, t.State, c.new[t.ID])
		}
	}
	equal(c.world, "repairs", c.maintain().Repaired, 0)
}

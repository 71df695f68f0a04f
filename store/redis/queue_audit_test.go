package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// Every task is where its state says and nowhere else, and every count is what it counts, whatever was done.
func TestBooksBalance(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, ownServer(t).URL)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &rampage{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 1))}
	raw := rawClient(t, c)
	r.worker = joined(t, s, ttl)
	for step := range 600 {
		r.step()
		if step%20 == 19 {
			audit(t, s, raw, "dibs:{"+c.Namespace+"}:")
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
		if step%100 == 99 {
			renewFor(t, s, r.worker, ttl)
		}
	}
}

type rampage struct {
	t      *testing.T
	s      *store.Store
	rng    *rand.Rand
	worker lease.Ref
	runs   []driver.Fetched
	try    func() error // what is next; it may be tried again after it failed

	raw    *goredis.Client // where the server may be another one now and then: slots of limits are held back from then on
	meta   string          // the namespace's record
	held   bool
	waited int // fetches that met what is held back
}

func (r *rampage) attempt() error { return r.try() }

// failover makes the server another one than the namespace knows, or one that has lost the record of it; or it
// ends the wait.
func (r *rampage) failover() {
	ctx := r.t.Context()
	var err error
	switch {
	case r.held:
		err = r.raw.HSet(ctx, r.meta, "hold_until", 1).Err()
	case r.rng.IntN(4) == 0:
		err = r.raw.Del(ctx, r.meta).Err()
	default:
		err = r.raw.HSet(ctx, r.meta, "run_id", "another").Err()
	}
	if r.held = !r.held; err != nil {
		r.t.Fatal(err)
	}
}

func (r *rampage) step() {
	r.t.Helper()
	r.plan()
	if err := r.try(); err != nil {
		r.t.Fatal(err)
	}
}

// plan decides what is next.
func (r *rampage) plan() {
	ctx := r.t.Context()
	if r.raw != nil && r.rng.IntN(15) == 0 {
		r.failover()
	}
	switch n := r.rng.IntN(24); {
	case n < 8:
		specs := make([]task.Spec, 1+r.rng.IntN(6))
		for i := range specs {
			specs[i] = r.spec()
			if err := specs[i].Check(); err != nil {
				r.t.Fatal(err)
			}
		}
		r.try = func() error { _, err := r.s.Queue.Enqueue(ctx, specs); return err }
	case n < 12:
		max := 1 + r.rng.IntN(6)
		r.try = func() error {
			f, err := r.s.Queue.Fetch(ctx, driver.FetchRequest{Worker: r.worker, Queues: []string{"a", "b"}, Max: max, Suspects: true, Crashers: true})
			r.runs = append(r.runs, f.Tasks...)
			if r.held && f.NextDue.Sub(f.Now) > 30*time.Minute {
				r.waited++ // until the longest lease has surely lapsed
			}
			return err
		}
	case n < 18:
		r.planEnd()
	case n < 21:
		r.planAct()
	case n < 22:
		slots := 1 + r.rng.IntN(8)
		key := (&task.Limit{Key: strconv.Itoa(r.rng.IntN(3)), Shared: true}).Hash("")
		r.try = func() error { _, err := r.s.Tasks.SetLimit(ctx, key, slots, "t"); return err }
	default:
		if r.rng.IntN(3) == 0 {
			r.try = func() error { r.runs = nil; return r.s.Queue.Deregister(ctx, r.worker) }
			return
		}
		r.try = func() error { _, err := r.maintain(); return err }
	}
}

func (r *rampage) planEnd() {
	ctx := r.t.Context()
	if len(r.runs) == 0 {
		r.try = func() error { _, err := r.s.Queue.Running(ctx, r.worker, false); return err }
		return
	}
	i := r.rng.IntN(len(r.runs))
	ref := r.runs[i].Ref
	if r.rng.IntN(3) == 0 {
		r.try = func() error { _, err := r.s.Queue.Start(ctx, r.worker, []driver.Ref{ref}); return err }
		return
	}
	r.runs = slices.Delete(r.runs, i, i+1)
	end := driver.Completion{Ref: ref, Verdict: driver.Verdict(1 + r.rng.IntN(7)), Outcome: "x", Delay: time.Duration(r.rng.IntN(2)) * 5 * time.Millisecond}
	r.try = func() error { _, err := r.s.Queue.Finish(ctx, r.worker, []driver.Completion{end}); return err }
}

func (r *rampage) planAct() {
	acts := []driver.Operation{driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit, driver.OpDelete}
	var ids []task.ID
	for range 4 {
		ids = append(ids, task.ID(1+r.rng.IntN(400)))
	}
	later := time.Now().Add(time.Duration(r.rng.IntN(3)) * 5 * time.Millisecond)
	act := driver.OpRequest{Operation: acts[r.rng.IntN(len(acts))], IDs: ids, Queue: "b", Edit: driver.Edit{RunAt: &later}}
	r.try = func() error { _, err := r.s.Tasks.Operate(r.t.Context(), act); return err }
}

func (r *rampage) maintain() (driver.Maintained, error) {
	keep := map[task.State]time.Duration{task.Succeeded: 20 * time.Millisecond, task.Discarded: 0, task.Canceled: 0}
	done, err := r.s.Queue.Maintain(r.t.Context(), driver.MaintainRequest{Keep: keep})
	if done.Repaired > 0 {
		r.t.Errorf("Maintain found %d things to repair", done.Repaired)
	}
	if r.raw != nil && err == nil && !done.More {
		if left := r.raw.SCard(r.t.Context(), strings.TrimSuffix(r.meta, "meta")+"untidy").Val(); left > 0 {
			r.t.Errorf("Maintain says that nothing is left to do, and %d limits are not as they should be", left)
		}
	}
	return done, err
}

// settle has the sweeps do all that is left to do.
func (r *rampage) settle() {
	r.t.Helper()
	for n := 0; ; n++ {
		done, err := r.maintain()
		if err != nil {
			r.t.Fatal(err)
		}
		if !done.More {
			return
		}
		if n == 10_000 {
			r.t.Fatal("the sweeps never come to an end")
		}
	}
}

func (r *rampage) spec() task.Spec {
	pick := func(n int) int { return r.rng.IntN(n) }
	s := task.Spec{Queue: []string{"a", "b"}[pick(2)], Kind: []string{"k", "l"}[pick(2)], Priority: pick(3) - 1}
	s.Delay = time.Duration(pick(3)/2) * time.Duration(pick(20)) * time.Millisecond
	if pick(6) == 0 {
		s.ExpiresAt = time.Now().Add(time.Duration(1+pick(30)) * time.Millisecond).Add(s.Delay)
	}
	if pick(3) == 0 {
		s.Limit = &task.Limit{Key: strconv.Itoa(pick(3)), Shared: true, Max: 1 + pick(3), OnContention: []task.Contention{task.Wait, task.Wait, task.Discard, task.Displace}[pick(4)]}
	}
	switch pick(6) {
	case 0:
		s.Unique = &task.Unique{Key: strconv.Itoa(pick(20)), Window: time.Duration(pick(2)) * 10 * time.Millisecond}
	case 1:
		s.Unique = &task.Unique{Key: strconv.Itoa(pick(20)), Until: task.UntilStarted, Again: []task.Again{task.Refuse, task.Replace}[pick(2)]}
	}
	return s
}

// audit compares the sets with the tasks.
func audit(t *testing.T, s *store.Store, raw *goredis.Client, prefix string) {
	t.Helper()
	ctx := t.Context()
	want := map[string]int{} // "set member" → 1, "hash field" → count
	var tasks []driver.Task
	for after := task.ID(0); ; after = tasks[len(tasks)-1].ID {
		some, err := s.Tasks.Tasks(ctx, driver.Filter{Max: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, some...)
		if len(some) < 1000 {
			break
		}
	}
	subs := raw.HGetAll(ctx, prefix+"subqueue-of").Val()
	for _, x := range tasks {
		id, sub := fmt.Sprint(x.ID), subs[subQueueName(x.Queue, x.Kind)]
		add := func(key, field string) { want[key+" "+field]++ }
		add("depth:"+sub, strconv.Itoa(stateNumber(x.State)))
		if !x.State.Final() {
			add("unfinished", fmt.Sprint(x.ID/1000))
		}
		if x.State.Waiting() && !x.ExpiresAt.IsZero() {
			add("expiry", id)
		}
		limit := ""
		if x.Limit != nil {
			h := x.Limit.Hash(x.Kind)
			limit = fmt.Sprintf("%x", h[:])
		}
		if x.Limit != nil && x.Limit.OnContention == task.Displace && (x.State == task.Available || x.State == task.Blocked) {
			add("displacing:"+limit, id)
		}
		switch x.State {
		case task.Scheduled, task.Retryable:
			add("due:"+sub, id)
		case task.Available:
			add(map[bool]string{false: "ready:", true: "suspect:"}[x.Suspect]+sub, id)
		case task.Blocked:
			add("blocked:"+sub, id)
			add("behind:"+limit+":"+sub, id)
		case task.Running:
			add("running:1", id)
			if limit != "" {
				add("slots:"+limit, id)
			}
			if x.Stop != "" {
				add("asked:1", id)
			}
		case task.Failed, task.Discarded, task.Canceled, task.Crashed:
			add("final:"+strconv.Itoa(stateNumber(x.State)), id)
		}
	}
	found := map[string]int{}
	for _, key := range raw.Keys(ctx, strings.NewReplacer("{", "\\{", "}", "\\}").Replace(prefix)+"*").Val() {
		name := strings.TrimPrefix(key, prefix)
		kind, _, _ := strings.Cut(name, ":")
		switch kind {
		case "depth", "unfinished":
			for f, n := range raw.HGetAll(ctx, key).Val() {
				found[name+" "+f], _ = strconv.Atoi(n)
			}
		case "ready", "suspect", "crasher", "due", "blocked", "behind", "final", "expiry", "displacing":
			for _, id := range raw.ZRange(ctx, key, 0, -1).Val() {
				found[name+" "+id]++
			}
		case "running", "slots", "asked":
			for _, id := range raw.SMembers(ctx, key).Val() {
				found[name+" "+id]++
			}
		}
	}
	// A suspect that crashed a worker is in a set of its own.
	for _, m := range []map[string]int{want, found} {
		for k, n := range m {
			if rest, ok := strings.CutPrefix(k, "crasher:"); ok {
				delete(m, k)
				m["suspect:"+rest] += n
			}
		}
	}
	for k, n := range want {
		if found[k] != n {
			t.Errorf("%s: found %d, want %d", k, found[k], n)
		}
	}
	for k, n := range found {
		if want[k] == 0 {
			t.Errorf("%s: found %d, want none", k, n)
		}
	}
	holders(t, raw, prefix, tasks)
}

// holders checks that keys are held by the tasks that should hold them, and by no others.
func holders(t *testing.T, raw *goredis.Client, prefix string, tasks []driver.Task) {
	t.Helper()
	held := map[string]task.ID{}
	for key, id := range raw.HGetAll(t.Context(), prefix+"unique").Val() {
		n, _ := strconv.ParseInt(id, 10, 64)
		held[key] = task.ID(n)
	}
	there := map[task.ID]bool{}
	for _, x := range tasks {
		there[x.ID] = true
		if x.Unique == nil || x.State.Final() || x.Unique.Until == task.UntilStarted {
			continue
		}
		h := x.Unique.Hash(x.Kind)
		if held[string(h[:])] != x.ID {
			t.Errorf("task %d is %s, and its key is held by %d", x.ID, x.State, held[string(h[:])])
		}
	}
	for key, id := range held {
		if !there[id] {
			t.Errorf("key %x is held by task %d, which is not there", key, id)
		}
	}
}

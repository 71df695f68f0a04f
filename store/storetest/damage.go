package storetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

// A Harm damages something that a store has kept in a namespace, behind the store's back.
type Harm struct {
	Name string
	// Do does it. victim is the task that it may damage; it reports false if there was nothing to damage.
	Do func(ctx context.Context, c store.Config, victim task.ID) (bool, error)
	// Tasks says that it damages nothing but tasks, which must stop nobody. History says so of what is only told.
	Tasks, History bool
}

// RunDamage checks that no row ends a program with a panic, whatever somebody wrote into it: each reading call and a
// worker go on. A damaged task is shown, can be deleted, and stops no other task. Every third of the harms is enough
// for every change, which is one or two of each column; a long round does them all.
// Holds: promise 28.
func RunDamage(t *testing.T, open Open, url string, harms []Harm) {
	t.Helper()
	for i, h := range harms {
		if i%3 != 0 && !testsize.Long() {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open, url)
			victim := w.victims()
			switch did, err := h.Do(w.ctx, w.config, victim); {
			case err != nil:
				t.Skip("the store itself refuses it: ", err)
			case !did:
				t.Skip("there is nothing to damage")
			}
			w.survives(h.Tasks || h.History, victim)
		})
	}
}

// Victims fills a namespace as RunDamage does, for a look at what a store keeps.
func Victims(t *testing.T, open Open, url string) store.Config {
	t.Helper()
	w := newWorld(t, open, url)
	w.victims()
	return w.config
}

// victims fills a namespace with one of everything.
func (w *world) victims() task.ID {
	w.Helper()
	w.setJob(w.s, "victim", `{"cron":"@daily"}`, w.at(0))
	claim := w.server(w.s)
	w.won(w.s, "victim", w.at(1), claim)
	started := w.started(w.s, "victim", w.at(2), claim)
	w.close(w.s, tick.CloseRequest{Run: end(started, run.Failed), Claim: claim})
	w.check("Output", w.s.History.Output(w.ctx, started.ID, []byte("printed")))
	w.check("Append", w.s.History.Append(w.ctx, []history.Event{{Kind: "k", Job: "victim"}}))
	w.hold(w.s, "victim")
	w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{"k3": {Count: 10, Per: time.Second}}))
	w.pauseQueue(driver.Pause{Queue: "paused", By: "somebody"})
	s := some()
	s.Unique, s.Limit = &task.Unique{Key: "victim"}, &task.Limit{Key: "victim", Max: 1}
	s.Options = task.Options{MaxAttempts: 3, Tags: []string{"victim"}}
	return w.add1(s)
}

// survives uses the store in every way, as other processes would.
func (w *world) survives(strict bool, victim task.ID) {
	w.Helper()
	w.s = w.processIfAny()
	if w.s == nil {
		return
	}
	says := func(what string, err error) {
		if err != nil && strict {
			w.Errorf("%s: %v", what, err)
		}
	}
	w.reads(says)
	var done atomic.Int32
	s := w.shop()
	stop := s.tolerant(func(context.Context, *queue.Run) error { done.Add(1); return nil })
	ids, err := w.s.Queue.Enqueue(w.ctx, []task.Spec{whole(some()), whole(some())})
	says("Enqueue", err)
	if strict && err == nil {
		for _, e := range ids {
			s.comes(e.ID, task.Succeeded)
		}
	}
	_, err = w.s.Queue.Maintain(w.ctx, driver.MaintainRequest{})
	says("Maintain", err)
	w.reads(says)
	stop()
	w.deletes(strict, victim)
	w.leasesAndTicks()
}

func whole(s task.Spec) task.Spec { _ = s.Check(); return s }

// processIfAny opens the store, which may say that it is not fit for use.
func (w *world) processIfAny() *store.Store {
	s, err := w.open(w.ctx, w.config)
	if err != nil {
		return nil
	}
	w.Cleanup(func() { _ = s.Close() })
	return s
}

// reads calls everything that only reads.
func (w *world) reads(says func(string, error)) {
	s := w.s
	q := history.Query{}
	_, err := s.Leases.List(w.ctx, "", true)
	says("List", err)
	_, err = s.Leases.Read(w.ctx, []lease.Key{"victim", "another"})
	says("Read", err)
	jobs, err := s.Ticks.Jobs(w.ctx, tick.JobQuery{})
	says("Jobs", err)
	_, err = s.Ticks.Jobs(w.ctx, tick.JobQuery{Names: []string{"victim"}})
	says("Jobs by name", err)
	_, err = s.Ticks.Orphans(w.ctx, tick.Look{Limit: 10})
	says("Orphans", err)
	_, err = s.History.Ticks(w.ctx, q)
	says("Ticks", err)
	_, err = s.History.Ticks(w.ctx, historyOf("victim"))
	says("Ticks of a job", err)
	runs, err := s.History.Runs(w.ctx, q)
	says("Runs", err)
	for _, r := range runs {
		_, err = s.History.ReadOutput(w.ctx, r.ID)
		says("ReadOutput", err)
	}
	_, err = s.History.Events(w.ctx, q)
	says("Events", err)
	_, err = s.History.Latest(w.ctx, []string{"victim"}, 3)
	says("Latest", err)
	_ = jobs
	_, err = s.Tasks.Queues(w.ctx)
	says("Queues", err)
	_, err = s.Tasks.Workers(w.ctx)
	says("Workers", err)
	_, err = s.Tasks.Pauses(w.ctx)
	says("Pauses", err)
	_, err = s.Tasks.Rates(w.ctx)
	says("Rates", err)
	_, err = s.Tasks.Limits(w.ctx)
	says("Limits", err)
	_, err = s.Tasks.Counts(w.ctx, time.Unix(0, 0), time.Now().Add(time.Hour))
	says("Counts", err)
	tasks, err := s.Tasks.Tasks(w.ctx, driver.Filter{})
	says("Tasks", err)
	for _, t := range tasks {
		_, _, _, err = s.Tasks.Task(w.ctx, t.ID)
		says("Task", err)
	}
}

// deletes removes the victim, which is shown until then.
func (w *world) deletes(strict bool, victim task.ID) {
	t, _, there, err := w.s.Tasks.Task(w.ctx, victim)
	if !there || !strict {
		return
	}
	w.check("Task", err)
	if t.State != task.Damaged && !t.State.Final() {
		w.act1(driver.OpCancel, victim) // it is understood well enough to wait
	}
	a, err := w.s.Tasks.Operate(w.ctx, driver.OpRequest{Operation: driver.OpDelete, IDs: []task.ID{victim}, By: "somebody"})
	w.check("Operate", err)
	if a[0].Answer == driver.Unfit { // to this store it is a task that waits
		w.act1(driver.OpCancel, victim)
		a, err = w.s.Tasks.Operate(w.ctx, driver.OpRequest{Operation: driver.OpDelete, IDs: []task.ID{victim}, By: "somebody"})
		w.check("Operate", err)
	}
	if a[0].Answer != driver.Done {
		w.Errorf("deleting the task, which was %s (%s): %+v", t.State, t.Reason, a[0])
	}
}

// leasesAndTicks shows that others go on.
func (w *world) leasesAndTicks() {
	if _, err := w.s.Leases.Acquire(w.ctx, []lease.AcquireRequest{{Key: "another", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: long}}); err != nil {
		w.Logf("Acquire: %v", err)
	}
	if _, err := w.s.Ticks.SetJobs(w.ctx, []tick.JobRequest{{Name: "another", Definition: "{}", Since: w.at(0)}}); err != nil {
		w.Logf("SetJobs: %v", err)
	}
	ref := w.hourly()
	_, _ = w.s.Ticks.Claim(w.ctx, []tick.ClaimRequest{{Job: "victim", At: w.at(3), Lease: ref}})
	_, _, _ = w.s.History.Prune(w.ctx, time.Now())
}

func (w *world) hourly() lease.Ref {
	r, err := w.s.Leases.Acquire(w.ctx, []lease.AcquireRequest{{Key: "server", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: long}})
	if err != nil || len(r.Answers) == 0 {
		return lease.Ref{}
	}
	return r.Answers[0].Record.Ref()
}

// tolerant is a worker that may end with an error, because what was damaged may be its lease.
func (s *shop) tolerant(do func(context.Context, *queue.Run) error) (stop func()) {
	s.Helper()
	k, mux := s.keeper(s.s), &queue.Mux{}
	mux.Handle("k", queue.Handler{Do: do, Backoff: func(int, error) time.Duration { return time.Millisecond }})
	wk, err := queue.NewWorker(queue.WorkerOptions{Store: s.s.Queue, Keeper: k, Mux: mux, Queues: []string{"q"}, Slots: 2, Grace: time.Second, Poll: 20 * time.Millisecond})
	s.check("NewWorker", err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { _ = wk.Run(ctx); close(done) }()
	return func() { cancel(); <-done; k.Close() }
}

// Hostile returns values that no store has ever written, for a column or a field of a kind: the first ones by default,
// all in a long round.
func Hostile(number bool) []any {
	if number {
		return []any{int64(-1), int64(99), int64(1) << 40}[:testsize.Of(2, 3)]
	}
	return []any{[]byte("{"), []byte("\x00\xff"), []byte{}, []byte(`{"limit":{},"unique":{}}`), []byte("[]"), []byte(`"x"`),
		[]byte(strings.Repeat("x", 1<<16))}[:testsize.Of(2, 7)]
}

// HarmOf is the name of a harm.
func HarmOf(where string, value any) string {
	if text, ok := value.([]byte); ok {
		value = fmt.Sprintf("%.20q", text)
	}
	return fmt.Sprintf("%s=%v", where, value)
}

// told are the tables of what is only told.
var told = regexp.MustCompile(`(ticks|runs|outputs|events|attempts)$`)

// Columns are the harms of a column of a SQL store, by a statement whose last argument is the victim, if it is of a
// table of tasks.
func Columns(table, column string, number, tasks bool, exec func(ctx context.Context, c store.Config, value any, victim task.ID) (int64, error)) (all []Harm) {
	for _, v := range Hostile(number) {
		all = append(all, Harm{Name: HarmOf(table+"."+column, v), Tasks: tasks, History: told.MatchString(table),
			Do: func(ctx context.Context, c store.Config, victim task.ID) (bool, error) {
				n, err := exec(ctx, c, v, victim)
				return n > 0, err
			}})
	}
	return all
}

// RunDamagedTask checks that a task that cannot be understood keeps neither its slot of a limit nor its unique key
// from others, whether its worker ends it or dies. damage makes a task of a namespace one, behind the store's back.
// Holds: promise 28.
func RunDamagedTask(t *testing.T, open Open, url string, damage func(ctx context.Context, c store.Config, victim task.ID) error) {
	t.Helper()
	for what, end := range map[string]func(w *world, worker lease.Ref, victim driver.Ref){
		"ended": func(w *world, worker lease.Ref, victim driver.Ref) { w.finish(worker, w.ended(victim, driver.Success)) },
		"dead":  func(w *world, worker lease.Ref, victim driver.Ref) { w.dies(worker) },
	} {
		t.Run("a damaged task whose worker has "+what+" it", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open, url)
			first, other := w.worker(w.s), w.worker(w.s)
			victim := w.fetch1(first, w.add1(limited("l", 1)))
			w.check("damage", damage(w.ctx, w.config, victim.ID))
			next := w.add1(limited("l", 1))
			end(w, first, victim.Ref)
			for range 5 {
				w.maintain()
				for _, got := range w.fetch(other, 10) {
					if got.ID == next {
						return
					}
					w.finish(other, w.ended(got.Ref, driver.Drop)) // as a worker does with what it does not understand
				}
			}
			w.Errorf("what waits for the damaged task's slot does not get it: %+v", w.task(next))
		})
	}
	for _, again := range []task.Again{task.Refuse, task.Replace, task.Debounce} {
		damagedKey(t, open, url, again, damage)
	}
}

func damagedKey(t *testing.T, open Open, url string, again task.Again, damage func(ctx context.Context, c store.Config, victim task.ID) error) {
	t.Run("a damaged task with a unique key, "+string(again), func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, open, url)
		s := unique("u", task.UntilStarted)
		if s.Unique.Again = again; again == task.Debounce {
			s.Delay = time.Hour
		}
		worker, victim := w.worker(w.s), w.add1(s)
		w.check("damage", damage(w.ctx, w.config, victim))
		for range 5 { // a store may see it only when it is fetched
			a := w.enqueue(w.s, s)[0]
			if a.Answer == task.New {
				return
			}
			if state := w.task(a.ID).State; a.Answer != task.Duplicate || a.ID != victim || state.Final() {
				w.Errorf("%+v, which is %s", a, state)
			}
			for _, got := range w.fetch(worker, 10) {
				w.finish(worker, w.ended(got.Ref, driver.Drop))
			}
		}
		w.Error("it keeps its key from others")
	})
}

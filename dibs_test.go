package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dibstest"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

var quiet = slog.New(slog.DiscardHandler)

func shop() dibs.Options { return dibs.Options{App: "shop", Logger: quiet} }

// beside is another process's client of a kit's store.
func beside(t *testing.T, st *store.Store, o dibs.Options) *dibs.Client {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, Clock: clock.Virtual{Start: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	o.Keeper = k
	c, err := dibs.New(st, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// start has clients run; what it returns stops them, and answers their errors.
func start(clients ...*dibs.Client) (stop func() []error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(clients))
	for _, c := range clients {
		go func() { ended <- c.Run(ctx) }()
	}
	return func() (errs []error) {
		cancel()
		for range clients {
			errs = append(errs, <-ended)
		}
		return errs
	}
}

func nothing(context.Context, dibs.Tick) error { return nil }

func registered(t *testing.T, st *store.Store) []tick.Job {
	t.Helper()
	known, err := tick.Registry(t.Context(), st.Ticks, "")
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// Each tick is run once, whoever of the fleet does it, and the function is told which it is.
func TestEachTickRunsOnceInTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute) // a bubble begins at midnight
		k := dibstest.New(t, shop())
		var mu sync.Mutex
		var ticks []dibs.Tick
		clients := []*dibs.Client{k.Client, beside(t, k.Store, shop()), beside(t, k.Store, shop())}
		for _, c := range clients {
			if err := c.Cron("reports", "0 * * * *", func(_ context.Context, at dibs.Tick) error {
				mu.Lock()
				defer mu.Unlock()
				ticks = append(ticks, at)
				fmt.Fprintf(at.Output, "report of %s\n", at.At)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		stop := start(clients...)
		time.Sleep(5*time.Hour + time.Minute)
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		if len(ticks) != 5 {
			t.Fatalf("%d runs of 5 ticks", len(ticks))
		}
		for i, at := range ticks {
			if at.At.Minute() != 0 || at.At.Second() != 0 || at.Job != "shop/reports" || at.Attempt != 1 || at.RunID == "" ||
				!strings.HasPrefix(at.IdempotencyKey, "shop/reports@") {
				t.Errorf("run %d was told %+v", i, at)
			}
			if i > 0 && (at.At.Sub(ticks[i-1].At) != time.Hour || at.Token <= ticks[i-1].Token || !at.PreviousSuccess.Equal(ticks[i-1].At)) {
				t.Errorf("after %+v came %+v", ticks[i-1], at)
			}
		}
		if text, err := k.Store.History.ReadOutput(t.Context(), ticks[0].RunID); err != nil || !strings.HasPrefix(string(text), "report of") {
			t.Errorf("its output is %q: %v", text, err)
		}
		if jobs := registered(t, k.Store); len(jobs) != 1 || !strings.Contains(jobs[0].Definition, `"work":"function"`) {
			t.Errorf("registered are %+v", jobs)
		}
	})
}

// What is wrong is said at once, and again by Run, which then starts nothing.
func TestWhatIsWrongIsSaidAtOnceAndByRun(t *testing.T) {
	for want, register := range map[string]func(*dibs.Client) error{
		"minute":              func(c *dibs.Client) error { return c.Cron("j", "99 * * * *", nothing) },
		"Nowhere":             func(c *dibs.Client) error { return c.Cron("j", "@daily", nothing, dibs.CronOptions{Zone: "Nowhere"}) },
		"want a name of":      func(c *dibs.Client) error { return c.Cron("a/b", "@daily", nothing) },
		"the function is nil": func(c *dibs.Client) error { return c.Cron("j", "@daily", nil) },
		"Concurrency": func(c *dibs.Client) error {
			return c.Cron("j", "@daily", nothing, dibs.CronOptions{Concurrency: "both"})
		},
		"Attempts is 101": func(c *dibs.Client) error { return c.Cron("j", "@daily", nothing, dibs.CronOptions{Attempts: 101}) },
		"RetryMax is 1s": func(c *dibs.Client) error {
			return c.Cron("j", "@daily", nothing, dibs.CronOptions{RetryMin: time.Hour, RetryMax: time.Second})
		},
		"Jitter is -1s": func(c *dibs.Client) error {
			return c.Cron("j", "@daily", nothing, dibs.CronOptions{Jitter: -time.Second})
		},
		"there are 2 CronOptions": func(c *dibs.Client) error {
			return c.Cron("j", "@daily", nothing, dibs.CronOptions{}, dibs.CronOptions{})
		},
		"a schedule of that name": func(c *dibs.Client) error {
			return errors.Join(c.Cron("j", "@daily", nothing), c.Cron("j", "@hourly", nothing))
		},
		"the tick is its key": func(c *dibs.Client) error {
			return c.CronTask("j", "@daily", queue.Spec{Kind: "k", Unique: &queue.Unique{Key: "x"}})
		},
		"kind": func(c *dibs.Client) error { return c.CronTask("j", "@daily", queue.Spec{}) },
		"the kind has no name": func(c *dibs.Client) error {
			return dibs.Handle(c, dibs.Kind[int]{}, func(context.Context, *dibs.Task, int) error { return nil })
		},
		"a handler of that kind already": func(c *dibs.Client) error {
			do := func(context.Context, *dibs.Task, int) error { return nil }
			return errors.Join(dibs.Handle(c, dibs.Define[int]("k"), do), dibs.Handle(c, dibs.Define[int]("k"), do))
		},
	} {
		k := dibstest.New(t, shop())
		err := register(k.Client)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		_ = k.Cron("fine", "@daily", nothing)
		if again := k.Run(t.Context()); again == nil || !strings.Contains(again.Error(), want) {
			t.Errorf("Run, want %q: %v", want, again)
		}
		if jobs := registered(t, k.Store); len(jobs) != 0 {
			t.Errorf("%s: registered all the same: %+v", want, jobs)
		}
	}
}

// Who says for whom the functions are cannot be guessed: without App there is no Cron, and a lock needs none.
func TestCronNeedsAnApp(t *testing.T) {
	k := dibstest.New(t, shop())
	c, err := dibs.New(k.Store, dibs.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Cron("j", "@daily", nothing); err == nil || !strings.Contains(err.Error(), "Options.App is empty") {
		t.Error(err)
	}
	if err := c.Do(t.Context(), "k", func(context.Context, *lease.Lease) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestRunIsCalledOnceAndLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dibstest.New(t, shop())
		if err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to run") {
			t.Errorf("Run of nothing: %v", err)
		}
		if err := k.Cron("j", "@daily", nothing); err != nil {
			t.Fatal(err)
		}
		stop := start(k.Client)
		synctest.Wait()
		if err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "called before") {
			t.Errorf("a second Run: %v", err)
		}
		if err := k.Cron("later", "@daily", nothing); err == nil || !strings.Contains(err.Error(), "called before") {
			t.Errorf("a late Cron: %v", err)
		}
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		k.Close()
		if _, err := k.Enqueue(t.Context(), queue.Spec{Kind: "k"}); !errors.Is(err, dibs.ErrClosed) {
			t.Errorf("Enqueue after Close: %v", err)
		}
	})
}

// A process without schedules touches no job of its app: another program of the fleet may have them.
func TestOnlyTheRolesThatAreUsedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dibstest.New(t, shop())
		if err := k.Cron("reports", "@hourly", nothing); err != nil {
			t.Fatal(err)
		}
		worker := beside(t, k.Store, shop())
		welcome := dibs.Define[string]("welcome")
		var got []string
		if err := dibs.Handle(worker, welcome, func(_ context.Context, task *dibs.Task, who string) error {
			got = append(got, fmt.Sprint(who, " ", task.Attempt))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stop := start(k.Client, worker)
		if _, err := k.Enqueue(t.Context(), welcome.Spec("ann")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		if !slices.Equal(got, []string{"ann 1"}) {
			t.Errorf("worked: %q", got)
		}
		if jobs := registered(t, k.Store); len(jobs) != 1 || !jobs[0].Removed.IsZero() {
			t.Errorf("the worker's process changed what is registered: %+v", jobs)
		}
	})
}

// A panic, and an end of the goroutine, are failures on record, and the next tick comes all the same.
func TestAFunctionThatPanicsHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute) // a bubble begins at midnight
		k := dibstest.New(t, shop())
		n := 0
		if err := k.Cron("j", "@hourly", func(context.Context, dibs.Tick) error {
			if n++; n == 2 {
				runtime.Goexit()
			}
			panic("no paper")
		}); err != nil {
			t.Fatal(err)
		}
		stop := start(k.Client)
		time.Sleep(3*time.Hour + time.Minute)
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		runs, err := k.Store.History.Runs(t.Context(), history.Query{Job: "shop/j", Limit: 10})
		if err != nil || len(runs) != 3 {
			t.Fatalf("%d runs: %v", len(runs), err)
		}
		for i, r := range runs {
			want := "panic: no paper"
			if i == 1 {
				want = "ended its goroutine"
			}
			if r.Outcome != run.Failed || !strings.Contains(r.Reason, want) || !strings.Contains(r.Command, "TestAFunctionThatPanics") {
				t.Errorf("run %d: %+v", i, r)
			}
		}
		if text, err := k.Store.History.ReadOutput(t.Context(), runs[0].ID); err != nil || !strings.Contains(string(text), "dibs_test.go") {
			t.Errorf("the output has no stack: %q, %v", text, err)
		}
	})
}

// The end of Run's context lets a run go on for the drain, then ends its context; one that ignores that is not
// waited for.
func TestRunDrains(t *testing.T) {
	for name, c := range map[string]struct {
		takes, after time.Duration
		heeds        bool
		outcome      run.Outcome
		stuck        bool
	}{
		"ends by itself":      {takes: 10 * time.Second, after: 10 * time.Second, outcome: run.Succeeded},
		"is told to end":      {takes: time.Hour, after: 12 * time.Second, heeds: true, outcome: run.Canceled},
		"ignores its context": {takes: time.Hour, after: 25 * time.Second, stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := dibstest.New(t, shop())
				var began atomic.Bool
				var cause error
				over := make(chan struct{})
				if err := k.Cron("j", "@hourly", func(ctx context.Context, _ dibs.Tick) error {
					began.Store(true)
					defer close(over)
					done := ctx.Done()
					if !c.heeds {
						done = nil
					}
					select {
					case <-time.After(c.takes):
						return nil
					case <-done:
						cause = context.Cause(ctx)
						return cause
					}
				}); err != nil {
					t.Fatal(err)
				}
				stop := start(k.Client)
				for !began.Load() {
					time.Sleep(time.Second / 2)
				}
				told := time.Now()
				err := errors.Join(stop()...)
				if took := time.Since(told); took < c.after-time.Second || took > c.after+time.Second {
					t.Errorf("Run returned after %s", took)
				}
				if c.stuck != errors.Is(err, dibs.ErrStuck) || !c.stuck && err != nil {
					t.Errorf("Run returned %v", err)
				}
				<-over
				if c.heeds && !errors.Is(cause, run.ErrShutdown) {
					t.Errorf("its context ended because of %v", cause)
				}
				if c.stuck {
					time.Sleep(time.Minute) // what is stuck ends in the bubble
					return
				}
				runs, err := k.Store.History.Runs(t.Context(), history.Query{Job: "shop/j", Limit: 1})
				if err != nil || len(runs) != 1 || runs[0].Outcome != c.outcome {
					t.Errorf("recorded are %+v, %v", runs, err)
				}
			})
		})
	}
}

func TestDoExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dibstest.New(t, shop())
		other := beside(t, k.Store, shop())
		never := func(context.Context, *lease.Lease) error { t.Error("it ran"); return nil }
		var first lease.Token
		boom := errors.New("boom")
		err := k.Do(t.Context(), "deploy", func(ctx context.Context, l *lease.Lease) error {
			first = l.Token()
			err := other.Do(ctx, "deploy", never)
			var held *lease.HeldError
			if !errors.Is(err, dibs.ErrHeld) || !errors.As(err, &held) {
				t.Errorf("a second Do: %v", err)
			}
			if err := other.Do(ctx, "deploy", never, dibs.LockOptions{Wait: time.Minute}); !errors.Is(err, dibs.ErrHeld) {
				t.Errorf("one that waits for a minute: %v", err)
			}
			time.Sleep(time.Hour) // far longer than a TTL
			return boom
		})
		if !errors.Is(err, boom) {
			t.Errorf("Do returned %v", err)
		}
		if err := other.Do(t.Context(), "deploy", func(_ context.Context, l *lease.Lease) error {
			if l.Token() <= first {
				t.Errorf("token %d after %d", l.Token(), first)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := k.Do(t.Context(), "", never); !errors.Is(err, lease.ErrBadKey) {
			t.Errorf("an empty key: %v", err)
		}
	})
}

// A task per tick: enqueued once in the fleet, under the tick as its key.
func TestATaskPerTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute) // a bubble begins at midnight
		k := dibstest.New(t, shop())
		digest := dibs.Define[string]("digest")
		var worked atomic.Int64
		clients := []*dibs.Client{k.Client, beside(t, k.Store, shop())}
		for _, c := range clients {
			if err := c.CronTask("digest", "@hourly", digest.Spec("daily")); err != nil {
				t.Fatal(err)
			}
			if err := dibs.Handle(c, digest, func(_ context.Context, _ *dibs.Task, which string) error {
				if which == "daily" {
					worked.Add(1)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		stop := start(clients...)
		time.Sleep(3*time.Hour + time.Minute)
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		tasks := k.Tasks("digest")
		if len(tasks) != 3 || worked.Load() != 3 {
			t.Fatalf("%d tasks, %d worked; want 3", len(tasks), worked.Load())
		}
		if u := tasks[0].Unique; u == nil || !strings.HasPrefix(u.Key, "shop/digest@") {
			t.Errorf("its key is %+v", u)
		}
	})
}

// Rule T11: the latest definition counts; who has another one leaves the function alone, and one that is gone from the
// program is removed.
func TestANewerProgramTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute) // a bubble begins at midnight
		k := dibstest.New(t, shop())
		var old, newer, gone atomic.Int64
		count := func(n *atomic.Int64) dibs.Func {
			return func(context.Context, dibs.Tick) error { n.Add(1); return nil }
		}
		if err := errors.Join(k.Cron("j", "0 * * * *", count(&old)), k.Cron("gone", "0 * * * *", count(&gone))); err != nil {
			t.Fatal(err)
		}
		stopOld := start(k.Client)
		time.Sleep(2*time.Hour + time.Minute)
		next := beside(t, k.Store, shop())
		if err := next.Cron("j", "30 * * * *", count(&newer)); err != nil {
			t.Fatal(err)
		}
		stopNew := start(next)
		time.Sleep(3 * time.Hour)
		before := old.Load() + gone.Load()
		if errs := append(stopOld(), stopNew()...); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		if before != 4 || newer.Load() != 3 {
			t.Errorf("the old program ran %d times, the new one %d; want 4 and 3", before, newer.Load())
		}
		for _, j := range registered(t, k.Store) {
			if removed := !j.Removed.IsZero(); removed != (j.Name == "shop/gone") {
				t.Errorf("%s: removed %v", j.Name, removed)
			}
		}
	})
}

// A run by hand is told its instant, uses up no tick, and says how it ended.
func TestTrigger(t *testing.T) {
	k := dibstest.New(t, shop())
	var got []dibs.Tick
	boom := true
	if err := k.Cron("j", "@daily", func(_ context.Context, at dibs.Tick) error {
		if got = append(got, at); boom {
			return errors.New("boom")
		}
		return nil
	}, dibs.CronOptions{Attempts: 2, RetryMin: time.Millisecond, RetryMax: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	leap := time.Date(2028, 2, 29, 4, 15, 0, 0, time.UTC)
	if err := k.Tick("j", leap); err == nil || !strings.Contains(err.Error(), "failed: boom") {
		t.Errorf("it failed: %v", err)
	}
	if len(got) != 2 || !got[1].At.Equal(leap) || got[1].Attempt != 2 || got[0].IdempotencyKey != got[1].IdempotencyKey {
		t.Errorf("it was told %+v", got)
	}
	boom = false
	if err := k.Trigger(t.Context(), "j", time.Time{}); err != nil || !got[2].At.IsZero() {
		t.Errorf("%v, %+v", err, got[2])
	}
	if err := k.Trigger(t.Context(), "other", leap); err == nil || !strings.Contains(err.Error(), "no schedule of that name") {
		t.Error(err)
	}
	if err := k.Do(t.Context(), "shop/j", func(context.Context, *lease.Lease) error { return k.Tick("j", leap) }); !errors.Is(err, dibs.ErrHeld) {
		t.Errorf("while another run goes on: %v", err)
	}
	if jobs := registered(t, k.Store); len(jobs) != 0 {
		t.Errorf("it registered %+v", jobs)
	}
}

// The definition of a function that says nothing but its schedule is compared between all versions of the library in a
// fleet: a changed default would have them disagree.
func TestTheDefinitionOfAPlainCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dibstest.New(t, shop())
		if err := k.Cron("j", "15 4 * * *", nothing); err != nil {
			t.Fatal(err)
		}
		stop := start(k.Client)
		synctest.Wait()
		jobs := registered(t, k.Store)
		if errs := stop(); errors.Join(errs...) != nil || len(jobs) != 1 {
			t.Fatal(errs, jobs)
		}
		const want = `{"schedules":["15 4 * * *"],"timezone":"UTC","policy":{"concurrency":"Forbid","scope":"host",` +
			`"timeout":"0s","deadline":"0s","max_attempts":1,"retry_min":"1s","retry_max":"1m0s","catch_up":"skip",` +
			`"catch_up_window":"24h0m0s","on_crash":"skip","starting_deadline":"0s","stop_grace":"10s","leftovers":"wait",` +
			`"on_lost_request":"wait"},"work":"function"}`
		if jobs[0].Definition != want {
			t.Errorf("got  %s\nwant %s", jobs[0].Definition, want)
		}
		if _, err := job.ParseDefinition(want); err != nil {
			t.Error(err)
		}
	})
}

// A store that holds back is waited for, and one line says so, whatever waits: locks, functions and tasks.
func TestAHoldBackIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		o := shop()
		o.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
		st := memory.New(memory.Options{HoldBack: true}).Store()
		c := beside(t, st, o)
		ticks := new(atomic.Int64)
		if err := c.Cron("reports", "@every 1s", func(context.Context, dibs.Tick) error { ticks.Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := dibs.Handle(c, dibs.Define[string]("welcome"), func(context.Context, *dibs.Task, string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		stop := start(c)
		if err := c.Do(t.Context(), "lock", func(context.Context, *lease.Lease) error { return nil }); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if errs := stop(); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		c.Close()
		if said := text.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "waiting") {
			t.Errorf("it says\n%s", said)
		}
		if ticks.Load() == 0 {
			t.Error("no tick ran")
		}
	})
}

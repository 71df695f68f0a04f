package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// alone runs f with a session that has neither slots nor fetcher: f does what they do, in the order that it wants.
func alone(t *testing.T, f func(t *testing.T, s *session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		l, err := k.Acquire(t.Context(), lease.Want{Key: lease.OnceKey()})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(t.Context())
		log := slog.New(slog.DiscardHandler)
		w := &Worker{o: WorkerOptions{Store: st.Queue, Keeper: k, Mux: new(Mux), Slots: 4, Prefetch: 10}, log: log,
			told: newListener(nil, log), tally: counters.New(st.Queue)}
		defer w.tally.Close()
		f(t, newSession(w, l))
	})
}

func given(id task.ID, token lease.Token) driver.Fetched {
	return driver.Fetched{Ref: driver.Ref{ID: id, Token: token}, Spec: Spec{Queue: "q", Kind: "k"}}
}

// reported are the ends on their way to the store.
func (s *session) reported() (all []driver.Ref) {
	for {
		select {
		case e := <-s.ends:
			all = append(all, e.Ref)
		default:
			return all
		}
	}
}

// works has a slot take the task. why says why the context of its work ended; nil: it has not.
func (it *item) works() (why func() error) {
	it.take()
	it.mu.Lock()
	defer it.mu.Unlock()
	var ended error
	it.cancel = func(cause error) { ended = cause }
	return func() error { return ended }
}

// A store that had forgotten a fetch may give the same task once more to the same worker, while the first attempt is
// at work. The first one is told to stop, and its end takes nothing from the second one.
// Holds: promise 19, Q5.
func TestATaskThatIsGivenTwice(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		first := s.hold([]driver.Fetched{given(1, 10)})[0]
		why := first.works()
		second := s.hold([]driver.Fetched{given(1, 20)})[0]
		if !errors.Is(why(), lease.ErrLost) {
			t.Errorf("the first attempt goes on: %v", why())
		}
		s.drop(first, false)
		if !s.knows(1) || s.count() != 1 {
			t.Error("the end of the first attempt removed the second one")
		}
		s.giveBack(t.Context(), 0, []driver.RunningTask{{Ref: second.Ref}})
		s.giveBack(t.Context(), 0, []driver.RunningTask{{Ref: second.Ref}})
		if r := s.reported(); len(r) > 0 {
			t.Errorf("%v is handed back, while it is here", r)
		}
		s.stopTask(driver.RunningTask{Ref: first.Ref, Stop: task.ReasonOperator})
		if second.stop != "" {
			t.Error("a stop of the first attempt reached the second one")
		}
		s.drop(second, false)
		if s.knows(1) || s.count() != 0 {
			t.Error("the second one is still here after its end")
		}
	})
}

// A stop is for the run that it names: neither for one that ended, nor for one that came after it. Of two stops the
// first one counts for the attempt.
// Holds: promise 23.
func TestAStopIsForTheRunThatItNames(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		it := s.hold([]driver.Fetched{given(1, 20)})[0]
		why := it.works()
		for _, other := range []driver.Ref{{ID: 1, Token: 19}, {ID: 1, Token: 21}, {ID: 2, Token: 20}} {
			s.stopTask(driver.RunningTask{Ref: other, Stop: task.ReasonOperator})
			if why() != nil || it.stop != "" {
				t.Fatalf("a stop of %v reached %v", other, it.Ref)
			}
		}
		s.stopTask(driver.RunningTask{Ref: it.Ref, Stop: task.ReasonOperator})
		if !errors.Is(why(), ErrStopped) {
			t.Errorf("told to stop: %v", why())
		}
		s.stopTask(driver.RunningTask{Ref: it.Ref, Stop: task.ReasonOperator})
		if r := s.reported(); len(r) > 0 {
			t.Errorf("a second stop ended %v, which is at work", r)
		}

		waits := s.hold([]driver.Fetched{given(3, 30)})[0] // for a slot
		for range 2 {
			s.stopTask(driver.RunningTask{Ref: waits.Ref, Stop: task.ReasonOperator})
		}
		if r := s.reported(); !slices.Equal(r, []driver.Ref{waits.Ref}) || waits.take() {
			t.Errorf("of one that waits these ended: %v", r)
		}
	})
}

// The store's answer speaks of what was there when it was asked: a task that came at that instant or later is not
// missing in it.
// Holds: Q5.
func TestAnAnswerSpeaksOfWhatWasThere(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		before := s.hold([]driver.Fetched{given(1, 10), given(2, 10), given(3, 10), given(4, 10)})
		time.Sleep(time.Second)
		asked := time.Now()
		at := s.hold([]driver.Fetched{given(5, 10)})[0]
		time.Sleep(time.Second)
		after := s.hold([]driver.Fetched{given(6, 10)})[0]
		before[1].completed.Store(true)
		runs := before[3].works()
		s.forget(asked, []driver.RunningTask{{Ref: before[2].Ref}, {Ref: driver.Ref{ID: 4, Token: 9}}})
		for _, c := range []struct {
			what string
			it   *item
			want bool
		}{
			{"one that is missing", before[0], true}, {"one that its handler completed", before[1], false},
			{"one that is known", before[2], false}, {"one that is known by another token", before[3], true},
			{"one that came at the instant", at, false}, {"one that came after it", after, false},
		} {
			if c.it.lost != c.want {
				t.Errorf("%s: given up %v, want %v", c.what, c.it.lost, c.want)
			}
		}
		if s.knows(1) || !errors.Is(runs(), lease.ErrLost) {
			t.Errorf("what is given up goes on: %v, %v", s.knows(1), runs())
		}
		if r := s.reported(); len(r) > 0 {
			t.Errorf("an end is reported of %v", r)
		}
	})
}

// A task waits for a slot for one second, and no less; then it is handed back, once. A shutdown hands all back.
// Holds: Q6.
func TestWhatWaitsIsHandedBackAtItsBound(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		works := s.hold([]driver.Fetched{given(1, 10)})[0]
		works.take()
		waits, lonely := s.hold([]driver.Fetched{given(2, 10)})[0], s.hold([]driver.Fetched{given(3, 10)})[0]
		s.lonely.Store(lonely) // it waits for the others to end, and not for a slot
		time.Sleep(stale - 1)
		s.handBack(stale)
		if r := s.reported(); len(r) > 0 {
			t.Errorf("before its time %v is handed back", r)
		}
		time.Sleep(time.Nanosecond)
		s.handBack(stale)
		s.handBack(stale)
		if r := s.reported(); !slices.Equal(r, []driver.Ref{waits.Ref}) {
			t.Errorf("handed back: %v, want %v", r, waits.Ref)
		}
		if capacity := s.capacity(); capacity != s.w.o.Slots {
			t.Errorf("then it fetches ahead, up to %d", capacity)
		}
		s.handBack(0)
		if r := s.reported(); !slices.Equal(r, []driver.Ref{lonely.Ref}) {
			t.Errorf("in the end these are handed back: %v", r)
		}
	})
}

// A task that is unknown here is stray if two answers name it, and every fetch that had begun by the first one had
// ended when the second was asked for.
// Holds: Q5.
func TestWhatIsStray(t *testing.T) {
	for _, c := range []struct {
		name             string
		begun, ended     int  // fetches: begun by the first answer, ended when the second was asked for
		between, reports bool // an answer between the two without it; its end is on the way
		want             bool
	}{
		{"all ended", 3, 3, false, false, true},
		{"more ended since", 3, 4, false, false, true},
		{"one is under way", 3, 2, false, false, false},
		{"it was gone between", 3, 3, true, false, false},
		{"its end is on the way", 3, 3, false, true, false},
	} {
		alone(t, func(t *testing.T, s *session) {
			mine := []driver.RunningTask{{Ref: driver.Ref{ID: 1, Token: 10}}}
			s.strays.begun = c.begun
			s.giveBack(t.Context(), 0, mine)
			if r := s.reported(); len(r) > 0 || s.idle() {
				t.Errorf("%s: after one answer %v is handed back; idle %v", c.name, r, s.idle())
			}
			if c.between {
				s.giveBack(t.Context(), c.ended, nil)
			}
			s.ending[1] = c.reports
			s.giveBack(t.Context(), c.ended, mine)
			if r := s.reported(); len(r) > 0 != c.want {
				t.Errorf("%s: %v is handed back, want %v", c.name, r, c.want)
			}
			if c.want {
				s.giveBack(t.Context(), c.ended, mine)
				if r := s.reported(); len(r) > 0 {
					t.Errorf("%s: a third answer hands back %v once more", c.name, r)
				}
			}
		})
	}
}

// A task that is on its way when it is first missed is judged by the fetches that had begun then, however many have
// begun since: a worker that always fetches hands its strays back, too.
// Holds: Q5.
func TestAStrayIsFoundBesideNewFetches(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		mine := []driver.RunningTask{{Ref: driver.Ref{ID: 1, Token: 10}}}
		for ended := range 4 { // three fetches are under way at the first answer, and one more begins before each next
			s.strays.begun = 3 + ended
			s.giveBack(t.Context(), ended, mine)
			if r := s.reported(); len(r) > 0 != (ended == 3) {
				t.Errorf("after %d of 3 fetches %v is handed back", ended, r)
			}
		}
	})
}

// during is a store on which something happens while it answers that a worker has nothing.
type during struct {
	driver.Store
	happens func()
}

func (d during) Running(context.Context, lease.Ref, bool) ([]driver.RunningTask, error) {
	time.Sleep(100 * time.Millisecond)
	d.happens()
	time.Sleep(100 * time.Millisecond)
	return nil, nil
}

// A task that is fetched while the heartbeat asks is not in the answer, and is not given up for that.
// Holds: Q5.
func TestATaskThatComesDuringTheHeartbeatIsKept(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		before := s.hold([]driver.Fetched{given(1, 10)})[0]
		before.take() // else it is handed back first
		first, came := make(chan *item, 1), sync.OnceValue(func() *item { return s.hold([]driver.Fetched{given(2, 10)})[0] })
		s.w.o.Store = during{s.w.o.Store, func() {
			select {
			case first <- came():
			default:
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.beat(ctx) }()
		<-first
		cancel()
		<-ended
		if !before.lost || came().lost {
			t.Errorf("given up: the one that the store does not know %v, the one that came meanwhile %v", before.lost, came().lost)
		}
	})
}

// onceBad is a store that refuses each end once.
type onceBad struct {
	driver.Store
	seen map[task.ID]bool
}

func (o onceBad) Finish(_ context.Context, _ lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	for _, e := range ends {
		if !o.seen[e.ID] {
			o.seen[e.ID] = true
			return nil, errors.New("the row is damaged")
		}
	}
	return make([]driver.Status, len(ends)), nil
}

// Ends that are tried again beside the others count only until they are accepted: however many there were, the next
// one holds nobody up.
func TestBadEndsOfThePastHoldUpNobody(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		s.reporting = t.Context()
		s.w.o.Store = onceBad{s.w.o.Store, map[task.ID]bool{}}
		for id := range task.ID(3 * maxBad) {
			began := time.Now()
			s.send([]end{{Completion: driver.Completion{Ref: driver.Ref{ID: 1 + id, Token: 10}}}})
			if d := time.Since(began); d > 0 {
				t.Fatalf("bad end %d is waited for, for %s", 1+id, d)
			}
			s.late.Wait()
		}
	})
}

// What is to stop a task, and comes between its slot and its beginning, is not lost.
// Holds: promise 23.
func TestAStopBeforeTheBeginning(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		s.work = t.Context()
		its := s.hold([]driver.Fetched{given(1, 10), given(2, 10), given(3, 10)})
		for _, it := range its {
			it.take()
		}
		s.stopTask(driver.RunningTask{Ref: its[0].Ref, Stop: task.ReasonOperator})
		s.forget(time.Now().Add(time.Second), []driver.RunningTask{{Ref: its[0].Ref}, {Ref: its[2].Ref}})
		for i, want := range []error{ErrStopped, errForgotten, nil} {
			var a attempt
			s.begin(its[i], &a)
			if got := context.Cause(a.ctx); !errors.Is(got, want) {
				t.Errorf("task %d: %v, want %v", its[i].ID, got, want)
			}
			a.cancel(nil)
		}
	})
}

// A worker with a task that took a worker down asks for no other such task, and asks again once that one has left, on
// whatever way.
// Holds: Q4.
func TestCrashersAreCountedOut(t *testing.T) {
	alone(t, func(t *testing.T, s *session) {
		crasher := given(1, 10)
		crasher.Crashes, crasher.Suspect = 1, true
		for name, leaves := range map[string]func(*item){
			"it ended":              func(it *item) { s.drop(it, true) },
			"it was handed back":    func(it *item) { s.release(it, "") },
			"it was given up":       func(it *item) { s.lose(it) },
			"it was given up twice": func(it *item) { s.lose(it); s.lose(it) },
			"it was stopped":        func(it *item) { s.stopTask(driver.RunningTask{Ref: it.Ref, Stop: task.ReasonOperator}) },
			"it was given anew": func(it *item) {
				again := s.hold([]driver.Fetched{crasher})[0]
				if s.crashers != 1 {
					t.Errorf("of one task that was given anew %d are counted", s.crashers)
				}
				s.drop(again, false)
			},
		} {
			it := s.hold([]driver.Fetched{crasher})[0]
			if s.crashers != 1 {
				t.Errorf("%s: %d are counted while it is here", name, s.crashers)
			}
			leaves(it)
			if s.crashers != 0 {
				t.Errorf("%s, and %d are counted still", name, s.crashers)
			}
			s.reported()
			s.crashers = 0
		}
	})
}

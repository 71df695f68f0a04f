package mysql

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

func limitNamed(key string) wake {
	l := task.Limit{Key: key}
	return wake{hash: l.Hash("k"), key: key, slots: 1}
}

// slotsOf is how many tasks may run under a limit.
func slotsOf(t testing.TB, s *store.Store, id task.ID) int {
	t.Helper()
	_, held, ok, err := s.Tasks.Task(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("task %d: %v, %v", id, ok, err)
	}
	return held.Max
}

// Who contends for limits waits, and decides once: no step is begun again because another one was first.
func TestContendersDecideOnce(t *testing.T) {
	t.Parallel()
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	id := enqueue(t, s.Queue, spec(limitOf("a", 1)), spec(limitOf("b", 1)))[0].ID
	const workers, rounds = 4, 25
	var tries atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		q := mustOpen(t, c).Queue.(queues)
		both := []wake{limitNamed("a"), limitNamed("b")}
		if i%2 == 1 {
			both[0], both[1] = both[1], both[0] // the order is not the caller's
		}
		all.Go(func() {
			for range rounds {
				err := q.step(t.Context(), func(b *txn) (err error) {
					defer func() {
						if number(err) != 1205 { // a wait that the server ended: a slow machine, and no decision
							tries.Add(1)
						}
					}()
					if err := b.lock(both, false, nothing); err != nil {
						return err
					}
					l, err := b.limit(limitNamed("a"))
					if err != nil {
						return err
					}
					return b.hears(l, l.Max+1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := slotsOf(t, s, id); n != 1+workers*rounds {
		t.Errorf("%d slots after %d times one more: some were lost", n, workers*rounds)
	}
	if n := tries.Load(); n != workers*rounds {
		t.Errorf("%d steps took %d tries", workers*rounds, n)
	}
}

// A fetch takes other tasks while somebody has a limit.
func TestAFetchPassesALockedLimitOver(t *testing.T) {
	t.Parallel()
	c := queueConfig(t, testserver.MariaDB(t))
	var on sockets
	other := mustOpen(t, c).Queue.(queues)
	s, w := smallAt(t, c, 1, &on)
	got := enqueue(t, s.Queue, spec(limitOf("a", 1)), spec(limitOf("b", 1)), spec())
	err := other.step(t.Context(), func(b *txn) error {
		if err := b.lock([]wake{limitNamed("a")}, false, nothing); err != nil {
			return err
		}
		made := on.made.Load()
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 2 || f.Tasks[0].ID != got[1].ID || f.Tasks[1].ID != got[2].ID {
			t.Errorf("fetched while the limit of task %d was locked: %+v", got[0].ID, f.Tasks)
		}
		// A wait for what is locked all the while ends with an error, after which no connection is used again.
		if n := on.made.Load() - made; n > 0 {
			t.Errorf("%d statements of the fetch failed", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if f := fetchSome(t, s, w, 10); len(f.Tasks) != 1 || f.Tasks[0].ID != got[0].ID {
		t.Errorf("fetched then: %+v", f.Tasks)
	}
}

// A client that is stopped while it has a limit keeps others waiting for some seconds, and changes nothing when
// it goes on.
func TestAStoppedClientLosesItsLimits(t *testing.T) {
	t.Parallel()
	c := queueConfig(t, testserver.MariaDB(t))
	s, stopped := mustOpen(t, c), mustOpen(t, c).Queue.(queues)
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec(limitOf("a", 1)), spec(limitOf("a", 1)))[0].ID
	f := fetchSome(t, s, w, 10)
	err := stopped.step(t.Context(), func(b *txn) error {
		if err := b.lock([]wake{limitNamed("a")}, false, nothing); err != nil {
			return err
		}
		l, err := b.limit(limitNamed("a"))
		if err != nil {
			return err
		}
		var seconds int
		if err := b.conn.QueryRowContext(t.Context(), "SELECT @@wait_timeout").Scan(&seconds); err != nil || seconds > 5 {
			t.Errorf("the server ends a silent step after %d s, %v", seconds, err)
		}
		complete(t, s.Queue, w, f.Tasks...) // before it goes on
		return b.hears(l, 7)
	})
	if err == nil {
		t.Error("what the stopped client had decided was carried out")
	}
	if n := slotsOf(t, s, id); n != 1 {
		t.Errorf("%d slots", n)
	}
	if n := len(fetchSome(t, s, w, 10).Tasks); n != 1 {
		t.Errorf("%d tasks are fetched", n)
	}
}

// A rate that is declared while a fetch is deciding bounds what it gives.
func TestARateIsNotOvertaken(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, queueConfig(t, testserver.MariaDB(t)))
	w, q := joined(t, s), s.Queue.(queues)
	enqueue(t, s.Queue, slices.Repeat([]task.Spec{spec()}, 10)...)
	m, err := q.member(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	var f *fetch
	declare := sync.OnceValue(func() error {
		return s.Queue.Declare(t.Context(), map[string]task.Rate{"k": {Count: 1, Per: time.Hour}})
	})
	err = q.step(t.Context(), func(b *txn) error {
		f = &fetch{txn: b, r: driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10}, id: m.id}
		done, err := f.look()
		if err != nil || done {
			return fmt.Errorf("it is over: %v, %w", done, err)
		}
		if err := declare(); err != nil {
			return err
		}
		return f.giveAll()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.granted) != 1 {
		t.Errorf("%d were given beside a rate of 1", len(f.granted))
	}
}

// What a member remembers of its tasks is bounded, whoever ends them.
func TestAMemberForgets(t *testing.T) {
	t.Parallel()
	m := new(member)
	given := func(from, n int) (some []driver.Fetched) {
		for i := range n {
			some = append(some, driver.Fetched{Ref: driver.Ref{ID: task.ID(from + i)}, Spec: spec(limitOf("l", 1))})
		}
		return some
	}
	for n := range 12 {
		last := given(1000*n, 1000)
		m.took(last)
		ends := []driver.Completion{{Ref: last[0].Ref}, {Ref: last[999].Ref}, {Ref: driver.Ref{ID: 1 << 40}}}
		if s := slices.Collect(maps.Values(m.freed(ends))); len(m.slots) > mostSlots || len(s) != 1 || s[0] != 2 {
			t.Fatalf("%d are remembered, of which the last free %v", len(m.slots), s)
		}
	}
	m.forget([]driver.Completion{{Ref: driver.Ref{ID: 11999}}})
	if s := m.freed([]driver.Completion{{Ref: driver.Ref{ID: 11999}}}); len(s) != 0 {
		t.Errorf("what was ended is remembered: %v", s)
	}
}

// A key's holder is there already: who is refused because of him names no limit.
func TestWhoIsRefusedDeclaresNoLimit(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, queueConfig(t, testserver.MariaDB(t)))
	enqueue(t, s.Queue, spec(uniqueKey("u"), limitOf("first", 1)))
	if got := enqueue(t, s.Queue, spec(uniqueKey("u"), limitOf("second", 1)))[0]; got.Answer != task.Duplicate {
		t.Errorf("answer: %+v", got)
	}
	for key, named := range map[string]bool{"first": true, "second": false} {
		if ok, err := s.Tasks.SetLimit(t.Context(), limitNamed(key).hash, 2, "me"); ok != named || err != nil {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
	}
}

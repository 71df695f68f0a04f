package mysql

import (
	"fmt"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
)

// However many kinds a queue ever had, a fetch and a step of Maintain look at a bounded number of them. A task of any
// kind is found after a round of fetches.
// Holds: promise 26.
func TestAFetchLooksAtABoundedNumberOfKinds(t *testing.T) {
	c := queueConfig(t, testserver.MariaDB(t))
	s, db := countedStore(t, c), raw(t, c.URL.String(), nil)
	w := joined(t, s.Store)
	enqueue(t, s.Queue, spec())
	complete(t, s.Queue, w, fetchSome(t, s.Store, w, 1).Tasks...)
	const kinds, most = 5000, 20*mostLooked + 2*mostNames
	exec(t, db, fmt.Sprintf("INSERT INTO dibs_task_subqueues (ns, queue, kind, salt) SELECT ?, 'q', CONCAT('old', seq), 0 FROM seq_1_to_%d", kinds), []byte(c.Namespace))
	for range 15 {
		s.took("a fetch beside kinds without tasks", most, func() { fetchSome(t, s.Store, w, 10) })
	}
	s.took("Maintain beside kinds without tasks", most, func() {
		if _, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{}); err != nil {
			t.Error(err)
		}
	})
	enqueue(t, s.Queue, spec(kindOf("old4711")))
	if n := len(fetchSome(t, s.Store, w, 10).Tasks); n != 1 {
		t.Errorf("%d tasks that this process has enqueued are found at once", n)
	}
	enqueue(t, mustOpen(t, c).Queue, spec(kindOf("old815")))
	for n := 0; len(fetchSome(t, s.Store, w, 10).Tasks) == 0; n++ {
		if n > 2*kinds/(mostLooked-mostBusy) {
			t.Fatalf("a task that another process has enqueued is not found in %d fetches", n)
		}
	}
}

// Of more sub-queues than one turn has room for, those with tasks are in each turn, and each other one in some turn.
func TestEachSubQueueHasItsTurn(t *testing.T) {
	var s subQueues
	const n = 1000
	busy := map[int64]bool{}
	for i := range n {
		at := subQueueName{"q", fmt.Sprint(i)}
		s.learn(at)
		busy[subQueueNumber(at)] = i%50 == 0
	}
	s.learn(subQueueName{"r", "0"})
	fits := func(at subQueueName) bool { return at.queue == "q" }
	seen := map[subQueueName]int{}
	turns := 0
	for ; len(seen) < n && turns < n; turns++ {
		now := s.turn("fetch", fits, func(sub int64) bool { return busy[sub] })
		if len(now) > mostLooked {
			t.Fatalf("%d in a turn", len(now))
		}
		some := 0
		for _, at := range now {
			seen[at]++
			if busy[subQueueNumber(at)] {
				some++
			}
		}
		if some != n/50 {
			t.Fatalf("%d of %d with tasks in turn %d", some, n/50, turns)
		}
	}
	if want := n/(mostLooked-n/50) + 1; turns > want {
		t.Errorf("all had their turn after %d; want %d", turns, want)
	}
	if len(seen) != n {
		t.Errorf("%d of %d had a turn", len(seen), n)
	}
	// However many have tasks, those without have turns as well.
	all := func(int64) bool { return true }
	if now := s.turn("fetch", fits, all); len(now) != mostLooked {
		t.Errorf("%d in a turn of those with tasks", len(now))
	}
}

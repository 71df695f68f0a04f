package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A task that comes while nobody is idle is not announced: only the first one after somebody had too few.
func TestOnlyTheIdleAreWoken(t *testing.T) {
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
	fetch := func(most, want int) {
		t.Helper()
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: most})
		if err != nil || len(f.Tasks) != want {
			t.Fatalf("fetch: %d tasks, %v; want %d", len(f.Tasks), err, want)
		}
	}
	one := task.Spec{Queue: "q", Kind: "k"}
	before := published()
	enqueue(t, s, one)
	told(t, "who has just begun to watch", signs)
	for range 5 {
		enqueue(t, s, one)
	}
	enqueue(t, s, task.Spec{Queue: "other", Kind: "k"})
	fetch(3, 3)
	enqueue(t, s, one) // it had enough
	if n := published() - before; n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	fetch(10, 4)
	enqueue(t, s, one)
	told(t, "who had too few", signs)
	fetch(10, 1)
	late := one
	late.Delay = time.Hour
	enqueue(t, s, late)
	told(t, "who does not know what comes next", signs)
	fetch(10, 0)
	late.Delay = 2 * time.Hour
	enqueue(t, s, late)
	if n := published() - before; n != 3 {
		t.Errorf("%d messages, want 3: what comes after the next is no news", n)
	}
}

// calls reads a line such as "calls=3,usec=12,…"; an absent one is 0.
func calls(s string) (n int64) {
	for i := range s {
		if s[i] == '=' {
			for _, d := range s[i+1:] {
				if d < '0' || d > '9' {
					return n
				}
				n = 10*n + int64(d-'0')
			}
		}
	}
	return n
}

// What starts on an idle queue waits for nobody's timer: a worker hears of it. How long that takes is logged,
// not judged.
func TestStartLatencyOnAnIdleQueue(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, _ := prepared(t, server.URL)
	w := joined(t, s, ttl)
	signs, err := s.Queue.Watch(t.Context(), []string{"q"})
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range 200 {
		began := time.Now()
		enqueue(t, s, task.Spec{Queue: "q", Kind: "k"})
		told(t, "the worker", signs)
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 10})
		if err != nil || len(f.Tasks) != 1 {
			t.Fatalf("fetch: %+v, %v", f, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("median %s, 99th percentile %s", took[100], took[198])
}

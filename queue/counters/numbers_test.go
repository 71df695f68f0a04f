package counters_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// The counts of minutes become rates and quantiles, one line for each queue and kind.
func TestCountsBecomeNumbers(t *testing.T) {
	got := counters.Summarize([]driver.Count{
		{Queue: "q", Kind: "k", Name: counters.Succeeded, N: 20}, {Queue: "q", Kind: "k", Name: counters.Succeeded, N: 10},
		{Queue: "q", Kind: "k", Name: counters.Work + ":8", N: 90}, {Queue: "q", Kind: "k", Name: counters.Work + ":1024", N: 10},
		{Queue: "a", Kind: "k", Name: counters.Failed, N: 1},
	}, time.Minute)
	if len(got) != 2 || got[0].Queue != "a" || got[0].Counts[counters.Failed] != 1 {
		t.Fatalf("%+v", got)
	}
	n := got[1]
	if n.PerSecond != 0.5 || len(n.Counts) != 1 || n.Work != (counters.Quantiles{N: 100, P50: 0.008, P99: 1.024, Max: 1.024}) || n.Wait.N != 0 {
		t.Errorf("%+v", n)
	}
}

// What is answered to specs is counted by answer; what took nothing in is not counted.
func TestAdmissionsAreCounted(t *testing.T) {
	specs := []task.Spec{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k"},
		{Queue: "q", Kind: "k", Unique: &task.Unique{Key: "u"}}, {Queue: "q", Kind: "k", Unique: &task.Unique{Key: "v"}}, {Queue: "q", Kind: "k"}}
	answers := []task.Enqueued{{Answer: task.New}, {Answer: task.New}, {Answer: task.Duplicate}, {Answer: task.Undecided}, {Answer: task.New}}
	sums := map[string]int64{}
	for _, c := range counters.Admissions(specs, answers) {
		sums[c.Name] += c.N
	}
	if len(sums) != 2 || sums[counters.Enqueued] != 3 || sums[counters.Duplicate+":finished"] != 1 {
		t.Errorf("%v", sums)
	}
}

package counters_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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

// counting is a store that notes how many sums a call writes, and takes so many calls.
type counting struct {
	driver.Store
	takes int
	calls []int
	sums  map[string]int64
}

func (c *counting) Count(_ context.Context, counts []driver.Count) error {
	if c.calls = append(c.calls, len(counts)); len(c.calls) > c.takes {
		return errors.New("not now")
	}
	for _, n := range counts {
		c.sums[n.Kind+n.Name] += n.N
	}
	return nil
}

// The sums of thousands of kinds are written in parts, each once: what the store does not take is written later.
// Holds: promise 26.
func TestSumsAreWrittenInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{takes: 2, sums: map[string]int64{}}
		tally := counters.New(c)
		const kinds = 3000
		for i := range kinds {
			tally.Add("q", fmt.Sprint(i), counters.Succeeded)
			tally.Add("q", fmt.Sprint(i), counters.Failed)
		}
		time.Sleep(6 * time.Second)
		c.takes = 1000
		tally.Close()
		if len(c.sums) != 2*kinds {
			t.Errorf("%d of %d sums are written", len(c.sums), 2*kinds)
		}
		for name, n := range c.sums {
			if n != 1 {
				t.Fatalf("%s is %d", name, n)
			}
		}
		for _, n := range c.calls {
			if n > 1000 {
				t.Errorf("a call writes %d sums", n)
			}
		}
	})
}

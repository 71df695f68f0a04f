//go:build linux

package million

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// picturesEnv names the directory into which the pictures go; where it is not set, none are drawn.
const picturesEnv = "DIBS_TEST_PICTURES"

// verify compares the ledgers with the store.
func (r *round) verify() *judge {
	r.Helper()
	if r.Failed() {
		r.FailNow() // what follows would only say the same again
	}
	books, err := readBooks(r.Ledger, r.killed)
	if err != nil {
		r.Fatal(err)
	}
	r.chart = r.draw(books)
	r.mu.Lock()
	j := newJudge(r.acked, books, r.TTL)
	r.mu.Unlock()
	seen := 0
	for after := r.first; ; {
		tasks, err := r.s.Tasks.Tasks(r.Context(), driver.Filter{After: after, Max: 1000})
		if err != nil {
			r.Fatal(err)
		}
		for i := range tasks {
			j.see(&tasks[i])
		}
		if seen += len(tasks); len(tasks) == 0 {
			break
		}
		after = tasks[len(tasks)-1].ID
	}
	err = j.end(r.unsure)
	if seen < r.n || seen > r.n+r.unsure {
		err = errors.Join(err, fmt.Errorf("%d tasks are there", seen))
	}
	if depths := r.depths(); depths[task.Succeeded] != r.n+seen || len(depths) != 1 {
		err = errors.Join(err, fmt.Errorf("beside the %d of before there are %v", r.n, depths))
	}
	if j.refusals == 0 {
		err = errors.Join(err, errors.New("no stale report was refused: none was made"))
	}
	if err != nil {
		words, _ := os.ReadFile(r.words.Name())
		r.Errorf("%v\n%s", err, words[max(0, len(words)-10_000):])
	}
	return j
}

// depths is how many tasks are in each state in which there are any.
func (r *round) depths() map[task.State]int {
	r.Helper()
	began := time.Now()
	subs, err := r.s.Tasks.Queues(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	r.Logf("the depth of the queue took %v", time.Since(began).Round(time.Millisecond))
	depths := map[task.State]int{}
	for _, l := range subs {
		for s, d := range l.Depth {
			if d > 0 {
				depths[s] += d
			}
		}
	}
	return depths
}

// report says in numbers and as a picture what was seen.
func (r *round) report(j *judge) {
	r.Helper()
	r.Logf("%d tasks in %v, %.0f a second; %d kills, %d leases lost; %d tasks were given again, %d were done by workers killed "+
		"before they wrote it down, %d stale reports were refused; %d enqueued without an answer", r.n, r.took.Round(time.Second),
		float64(r.n)/r.took.Seconds(), len(r.kills), j.lost, j.repeats, j.unwritten, j.refusals, r.unsure)
	c := r.chart
	var rates, costs strings.Builder
	for i := range 10 {
		rate, cost := c.mean(float64(i)/10, float64(i+1)/10)
		fmt.Fprintf(&rates, " %.0f", rate)
		fmt.Fprintf(&costs, " %.0f", cost)
	}
	r.Logf("done per second in each tenth of the time:%s", rates.String())
	r.Logf("ms of processor time per 1,000 tasks:%s", costs.String())
	dir := os.Getenv(picturesEnv)
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "million-"+r.name+".svg"), c.svg(), 0o644); err != nil {
		r.Error(err)
	}
}

// draw makes the chart: the rate over time, from when completions were accepted, until the last one was.
func (r *round) draw(books []book) *chart {
	var last int64
	for _, b := range books {
		for _, e := range b.records {
			if e.What == completed {
				last = max(last, e.At)
			}
		}
	}
	r.took = time.UnixMicro(last).Sub(r.began)
	c := &chart{
		Title: fmt.Sprintf("%s: %s tasks in and out, beside as many finished ones", r.title, thousands(r.n)),
		Step:  max(time.Second, (r.took / 200).Round(time.Second)), Took: r.took,
	}
	c.Done = make([]int, int(r.took/c.Step)+1)
	for _, b := range books {
		for _, e := range b.records {
			if e.What == completed {
				c.Done[int(max(time.UnixMicro(e.At).Sub(r.began), 0)/c.Step)]++
			}
		}
	}
	c.Used = make([]time.Duration, len(c.Done))
	for i := range c.Used {
		c.Used[i] = r.usedAt(time.Duration(i+1)*c.Step) - r.usedAt(time.Duration(i)*c.Step)
	}
	for _, k := range r.kills {
		c.Kills = append(c.Kills, min(k.Sub(r.began), r.took))
	}
	slices.Sort(c.Kills)
	return c
}

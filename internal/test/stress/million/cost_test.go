//go:build linux

package million

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A cost is how much processor time the round had used at an instant: the test, its workers and its server. Unlike the
// rate it tells what a task takes also where others use the machine.
type cost struct {
	at   time.Time
	used time.Duration
}

// spend notes the cost every second until stop is closed.
func (r *round) spend(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		used, err := usedByUs()
		if err != nil {
			r.Errorf("the processor time of the round: %v", err)
			return
		}
		if n := len(r.costs); n > 0 {
			used = max(used, r.costs[n-1].used) // one that ends just now may be missed, until the next time
		}
		r.costs = append(r.costs, cost{time.Now(), used})
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// usedAt is what had been used at an instant of the round.
func (r *round) usedAt(at time.Duration) time.Duration {
	before := cost{}
	for _, c := range r.costs {
		since := c.at.Sub(r.began)
		if since >= at {
			if before.at.IsZero() {
				return c.used
			}
			whole := c.at.Sub(before.at)
			return before.used + time.Duration(float64(c.used-before.used)*float64(at-before.at.Sub(r.began))/float64(whole))
		}
		before = c
	}
	return before.used
}

// usedByUs is the processor time of this process and all below it, those included that have ended.
func usedByUs() (time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	type process struct{ parent, ticks int }
	all := map[int]process{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended while we looked
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(f) < 15 {
			return 0, fmt.Errorf("%s: %q", path, b)
		}
		var p process
		p.parent, err = strconv.Atoi(f[1])
		for _, used := range f[11:15] { // its own in both modes, and those of the children that it has waited for
			n, e := strconv.Atoi(used)
			if e != nil {
				err = e
			}
			p.ticks += n
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		all[pid] = p
	}
	ticks := 0
	for pid, p := range all {
		for up := pid; up > 1; up = all[up].parent {
			if up == os.Getpid() {
				ticks += p.ticks
				break
			}
		}
	}
	const tick = 10 * time.Millisecond // of Linux, for programs
	return time.Duration(ticks) * tick, nil
}

//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Promises 8 and 11: three servers whose crons fire at once run a tick once, and the others say who
// has it.
// Holds: promises 8, 11, 24.
func TestThreeProcessesOneTick(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		n := rounds(10, 200)
		for i := range n {
			w.oneTick(fmt.Sprintf("tick %d", i))
		}
		all := w.history()
		if len(all) != n {
			t.Errorf("%d entries in history, want %d: %+v", len(all), n, all)
		}
		for _, e := range all {
			if e.Outcome != "succeeded" || e.Tick == nil || len(e.Runs) != 1 {
				t.Errorf("history has %+v", e)
			}
		}
		w.noOverlap()
	})
}

// oneTick is one round.
func (w *world) oneTick(key string) {
	w.t.Helper()
	var all []*process
	flags := []string{"--once-per", dueNow()}
	for range 3 {
		all = append(all, w.run(key, flags, w.work(key, work{For: 20 * time.Millisecond})))
	}
	var winner *process
	for _, p := range all {
		switch status := p.wait(patience); {
		case status == 0 && winner == nil:
			winner = p
		case status != 75:
			w.t.Fatalf("exit status %d; the winner is %v, the loser %s", status, winner, p)
		}
	}
	started := which(heard(w.t, w.dir), "start", key)
	if winner == nil || len(started) != 1 {
		w.t.Fatalf("%s: started %v, by %v", key, started, all)
	}
	if r := winner.result(); r.Outcome != "succeeded" || fmt.Sprint(r.Token) != started[0].Env["DIBS_TOKEN"] || r.RunID != started[0].Env["DIBS_RUN_ID"] {
		w.t.Errorf("the command had token %s and run id %s: %s", started[0].Env["DIBS_TOKEN"], started[0].Env["DIBS_RUN_ID"], winner)
	}
	for _, p := range all {
		if p == winner {
			continue
		}
		r, name := p.result(), fmt.Sprintf("pid %d", winner.Process.Pid)
		if r.HeldBy == nil || r.HeldBy.PID != winner.Process.Pid || r.HeldBy.Host == "" || !strings.Contains(p.stderr(), name) ||
			r.Outcome != "duplicate" && r.Outcome != "contended" || r.ExitStatus != 75 {
			w.t.Errorf("the loser does not name %s: %s", name, p)
		}
	}
}

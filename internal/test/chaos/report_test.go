//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// problem notes what may not be, with the faults that were there at the time.
func (r *round) problem(from, until time.Duration, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, f := range r.faults {
		if f.from <= until+2*time.Second && f.until >= from-20*time.Second {
			text += "\n        " + f.String()
		}
	}
	r.problems = append(r.problems, text)
}

func (r *round) tickProblem(at time.Time, format string, args ...any) {
	r.problem(boot(at), boot(at)+5*time.Second, format, args...)
}

// accountSpacing wants no two starts within the time that --once-per names, by the store's own record of the starts.
func (r *round) accountSpacing(c caller) {
	var starts []time.Time
	seen := r.seen.by(func(l *life) string { return l.Run })
	for _, e := range r.history[c.key] {
		for _, run := range e.Runs {
			if len(seen[run.RunID]) > 0 && !run.Started.IsZero() {
				starts = append(starts, run.Started)
			}
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i := 1; i < len(starts); i++ {
		a, b := starts[i-1], starts[i]
		stepped := slices.ContainsFunc(r.steps, func(s clockStep) bool { return s.at >= boot(a)-time.Minute && s.at <= boot(b)+time.Minute })
		if b.Sub(a) < c.spaced-50*time.Millisecond && !stepped && !r.isLost(boot(a)) && !r.isLost(boot(b)) {
			r.problem(boot(a), boot(b), "%s: started at %s and %s, which is within %s", c.key, a.Format(time.RFC3339Nano), b.Format(time.RFC3339Nano), c.spaced)
		}
	}
}

// grantToWork is how long a work may take from its grant to its first line where nothing stands between them but a
// slow machine.
const grantToWork = 8 * time.Second

// accountGrants, but for a smoke on a machine of any speed, wants no granted key to wait for a log or a disk before
// its work begins (promise 27). The token of a grant tells when it was: the store's time in microseconds.
func (r *round) accountGrants() {
	if r.isSmoke() {
		return
	}
	for _, l := range r.seen.lives {
		granted := boot(time.UnixMicro(l.Token))
		if l.Task != "" || l.begin-granted < grantToWork || r.isLost(l.begin) {
			continue
		}
		excused := slices.ContainsFunc(r.faults, func(f *fault) bool {
			uses, where := strings.CutSuffix(f.kind.uses, "@")
			bystander := uses == "logs" || uses == "disk"
			return !bystander && (!where || f.host == l.Host) && f.from <= l.begin && f.until >= granted-time.Second
		})
		if !excused {
			r.problem(granted, l.begin, "%s: run %s on %s was granted its key at %s, and its work began %s later, though neither store nor processes were harmed",
				l.Key, l.Run, l.Host, clockText(granted), (l.begin - granted).Round(time.Millisecond))
		}
	}
}

// accountTasks wants every task that was acknowledged, and every effect repeated only under a larger token.
func (r *round) accountTasks() {
	lives := r.seen.by(func(l *life) string { return l.Task })
	for _, h := range r.hosts {
		for _, id := range h.enqueued() {
			r.counts["tasks acknowledged"]++
			state, there := r.tasks[id]
			if !there && len(r.lost) == 0 { // a failover forgets tasks, and gives their ids to others
				r.problem(0, 0, "task %d was acknowledged to %s and is not there", id, h.name)
			}
			if state == "succeeded" && len(r.lost) == 0 && !slices.ContainsFunc(lives[fmt.Sprint(id)], func(l *life) bool { return l.ended }) {
				r.problem(0, 0, "task %d succeeded by the record, and its end was not seen", id)
			}
		}
	}
	for _, state := range r.tasks {
		r.counts["tasks "+state]++
	}
	for _, l := range lives {
		r.counts["tasks' attempts seen"] += len(l)
	}
}

// accountServices wants no service that ended well without being asked, and counts how the others ended.
func (r *round) accountServices() {
	for _, h := range r.hosts {
		for _, n := range h.notes() {
			switch {
			case n.what == "gone-in-silence":
				r.problem(n.at, n.at, "%s: %s ended with status 0 and was not asked to", h.name, n.name)
			case strings.HasPrefix(n.what, "ended "):
				status := strings.TrimPrefix(n.what, "ended ")
				r.counts["ends of "+n.name+": "+status]++
				if strings.HasPrefix(n.name, "run-") && !documented(status) {
					r.problem(n.at, n.at, "%s: %s ended with %s, which neither its command nor dibs run is known to do", h.name, n.name, status)
				}
			}
		}
	}
}

// documented says whether a status is one of `dibs run`, or of the works that it runs here: 0, 3, or a signal's.
func documented(status string) bool {
	if strings.HasPrefix(status, "signal-") || len(status) == 3 && status >= "128" {
		return true
	}
	return slices.Contains([]string{"0", "3", "69", "75", "79", "124", "125"}, status)
}

// report tells the counts, and fails the test for each problem.
func (r *round) report() {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, faults for %s, ttl %s\nfaults: %d\n", r.name, r.seed, r.length, r.ttl, len(r.faults))
	kinds := map[string]int{}
	for _, f := range r.faults {
		kinds[f.kind.name]++
	}
	for _, m := range []map[string]int{kinds, r.counts} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%8d %s\n", m[name], name)
		}
	}
	fmt.Fprintf(&b, "longest overlap within L12's bound: %s of %s\n", r.overlapped.Round(time.Millisecond), r.stepBound())
	fmt.Fprintf(&b, "longest until something ran again: %s, of %s (bound %s)\nproblems: %d\n", r.longest.Round(time.Millisecond), r.slowest, r.bound(), len(r.problems))
	r.t.Log(b.String())
	_ = os.WriteFile(filepath.Join(r.dir, "report.txt"), []byte(b.String()+strings.Join(r.problems, "\n")+"\n"), 0o644) // the log has it too
	const shown = 40
	for i, p := range r.problems {
		if i == shown {
			r.t.Errorf("and %d more, all in %s", len(r.problems)-shown, filepath.Join(r.dir, "report.txt"))
			return
		}
		r.t.Errorf("%s", p)
	}
}

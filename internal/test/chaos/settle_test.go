//go:build linux

package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bound is within which time everything runs again after the last fault, without a command: leases that have to
// expire, once more for a hold-back, and a minute, for which schedules follow the line of a clock that was stepped
// (L12).
func (r *round) bound() time.Duration {
	if r.isSmoke() {
		return 5 * time.Minute
	}
	return 2*r.ttl + time.Minute
}

// expectRuns waits until every job, every caller's key and every worker have begun work since an instant.
func (r *round) expectRuns(since time.Duration, when string) {
	var awaited []string
	for _, j := range r.jobs() {
		if !j.host {
			awaited = append(awaited, j.key())
			continue
		}
		for _, h := range r.hosts {
			awaited = append(awaited, j.key()+"@"+h.name)
		}
	}
	for _, c := range r.callers() {
		awaited = append(awaited, c.key)
	}
	for _, h := range r.hosts {
		awaited = append(awaited, "worker@"+h.name)
	}
	first := map[string]time.Duration{}
	for end := bootTime() + r.bound(); len(first) < len(awaited) && bootTime() < end; time.Sleep(200 * time.Millisecond) {
		r.must(r.seen.look())
		for _, l := range r.seen.lives {
			name := l.Key
			if l.Task != "" {
				name = "worker@" + l.Host
			}
			if was, ok := first[name]; slices.Contains(awaited, name) && l.begin >= since && (!ok || l.begin < was) {
				first[name] = l.begin
			}
		}
	}
	for _, name := range awaited {
		at, ok := first[name]
		if !ok {
			r.problem(since, bootTime(), "%s did not run within %s %s", name, r.bound(), when)
		} else if after := at - since; after > r.longest {
			r.longest, r.slowest = after, name
		}
	}
}

// quiesce stops the callers, lets the queue run dry and every tick get its outcome, and then ends the hosts in order.
func (r *round) quiesce(from, to time.Time) {
	for _, h := range r.hosts {
		h.flag(quietFlag, true)
	}
	healed := bootTime()
	for end := healed + r.bound(); bootTime() < end; time.Sleep(time.Second) {
		if err := r.askAll(from, to); err == nil && r.waitingTasks() == 0 && len(r.unsettled(from, to)) == 0 {
			break
		} else if err != nil {
			r.say("asking: %v", err)
		}
	}
	r.must(r.askAll(from, to))
	if n := r.waitingTasks(); n > 0 {
		r.problem(healed, bootTime(), "%d tasks still wait %s after everything was healed", n, r.bound())
	}
	r.stopHosts()
	r.must(r.askAll(from, to))
	r.must(r.seen.look())
}

func (r *round) stopHosts() {
	for _, h := range r.hosts {
		r.must(h.order("stop"))
	}
	stopped := func(h *host) bool {
		return slices.ContainsFunc(h.notes(), func(n initNote) bool { return n.name == "init" && n.what == "stopped" })
	}
	for _, h := range r.hosts {
		for end := bootTime() + r.bound(); !stopped(h) && bootTime() < end; time.Sleep(100 * time.Millisecond) {
		}
		if !stopped(h) {
			r.problem(bootTime()-r.bound(), bootTime(), "%s: SIGTERM did not end its services within %s: %s", h.name, r.bound(), describe(anySupervisor(h.procs())))
		}
	}
	var left []string
	for end := bootTime() + r.bound(); bootTime() < end; time.Sleep(time.Second) {
		if left = r.held(); len(left) == 0 {
			return
		}
	}
	r.problem(bootTime(), bootTime(), "still held %s after everybody ended: %s", r.bound(), left)
}

// held are the keys that somebody holds, by the store's word.
func (r *round) held() (keys []string) {
	var list []struct{ Key, State string }
	out, err := r.dibs("lease", "list", "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		return []string{err.Error()}
	}
	for _, l := range list {
		if l.State == "held" {
			keys = append(keys, l.Key)
		}
	}
	return keys
}

// An entry is a line of `dibs history`, as far as it is judged.
type entry struct {
	Job       string
	Tick      *time.Time
	Through   *time.Time
	Outcome   string
	Reason    string
	Count     int
	Unsettled bool
	Runs      []recordedRun
}

type recordedRun struct {
	RunID                 string `json:"run_id"`
	Host, Outcome, Reason string
	Started, Ended        time.Time
}

// A taskRow is a line of `dibs task list`.
type taskRow struct {
	ID    int64
	State string
}

// askAll reads history and queue anew.
func (r *round) askAll(from, to time.Time) error {
	r.history = map[string][]entry{}
	keys := []string{}
	for _, j := range r.jobs() {
		if !j.host {
			keys = append(keys, j.key())
		}
	}
	for _, c := range r.callers() {
		keys = append(keys, c.key)
	}
	const margin = 90 * time.Minute // a clock that was an hour off ran ticks of that time
	for _, key := range keys {
		var found []entry
		out, err := r.dibs("history", key, "-n", "10000", "-o", "json", "--from", stamp(from.Add(-margin)), "--to", stamp(to.Add(margin)))
		if err != nil && strings.Contains(err.Error(), "no history and no registered job has that name") {
			out, err = []byte("[]"), nil // a caller that was never granted its key
		}
		if err == nil {
			err = json.Unmarshal(out, &found)
		}
		if err != nil {
			return err
		}
		r.history[key] = found
		_ = os.WriteFile(filepath.Join(r.dir, "history-"+strings.ReplaceAll(key, "/", "-")+".json"), out, 0o644) // evidence
	}
	return r.askTasks()
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (r *round) askTasks() error {
	r.tasks = map[int64]string{}
	for after := int64(0); ; {
		out, err := r.dibs("task", "list", "--queue", queueName, "-n", "1000", "--after", fmt.Sprint(after), "-o", "json")
		var page []taskRow
		if err == nil {
			err = json.Unmarshal(out, &page)
		}
		if err != nil || len(page) == 0 {
			return err
		}
		for _, row := range page {
			r.tasks[row.ID], after = row.State, max(after, row.ID)
		}
	}
}

func (r *round) waitingTasks() (n int) {
	for _, state := range r.tasks {
		if slices.Contains([]string{"scheduled", "available", "blocked", "running", "retryable"}, state) {
			n++
		}
	}
	return n
}

// enqueued are the ids that were acknowledged. The answers of several processes are in one file, one object after the
// other; one that was killed may have left half of one.
func (h *host) enqueued() (ids []int64) {
	for _, name := range []string{"enqueue", "enqueue-limited"} {
		b, _ := os.ReadFile(filepath.Join(h.dir, name+".out")) // none: it never said anything
		for _, object := range strings.SplitAfter(string(b), "}") {
			var answer struct {
				Outcome string
				ID      int64
			}
			if json.Unmarshal([]byte(object), &answer) == nil && answer.Outcome == "enqueued" {
				ids = append(ids, answer.ID)
			}
		}
	}
	return ids
}

// dibs asks the store: from outside of the hosts, or on the only host where the store is that host's own.
func (r *round) dibs(args ...string) ([]byte, error) {
	line := append(append([]string{dibsBinary}, args...), "--store", r.store)
	if r.only != nil {
		line = append([]string{"nsenter", "--target", strconv.Itoa(r.only.cmd.Process.Pid), "--mount", "--pid", "--"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(cleanEnvironment(), "DIBS_DIR="+filepath.Join(r.dir, "asking"))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("dibs %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

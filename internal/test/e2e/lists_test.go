//go:build linux

package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A list that leaves something out says so, and how to see the rest; what it names leads there.
func TestAListThatIsCutSaysSo(t *testing.T) {
	w := fileWorld(t)
	for range 5 {
		w.run("k", nil, shell("exit 0")).exits(0, patience)
	}
	if all := w.dibs("history", "-n", "5").exits(0, patience); all.stderr() != "" {
		t.Errorf("a whole list: %s", all)
	}
	seen := map[string]bool{}
	args := []string{"history", "-n", "3", "-o", "json"}
	for pages := 0; ; pages++ {
		p := w.dibs(args...).exits(0, patience)
		var entries []entry
		if err := json.Unmarshal([]byte(p.stdout()), &entries); err != nil || len(entries) > 3 {
			t.Fatalf("%v: %s", err, p)
		}
		for _, en := range entries {
			seen[en.Runs[0].RunID] = true
		}
		rest := regexp.MustCompile(`these are the latest 3; -n 30 shows more, and --to (\S+) shows earlier ones`).FindStringSubmatch(p.stderr())
		if rest == nil {
			break
		}
		if pages == 5 { // all five may be of one second
			p = w.dibs("history", "-n", "30", "-o", "json").exits(0, patience)
			if n := strings.Count(p.stdout(), `"run_id"`); n != 5 || p.stderr() != "" {
				t.Errorf("%d runs: %s", n, p)
			}
			return
		}
		args = append(args[:5:5], "--to", rest[1])
	}
	if len(seen) != 5 {
		t.Errorf("of 5 runs, following what the lists say shows %d", len(seen))
	}
}

func TestAListOfEventsOrTasksThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	m := w.jobs(job{"j", "0 0 1 1 *", `{}`, []string{"true"}})
	server := w.serve(m)
	server.logs("event=serving")
	for range 2 {
		w.must("job", "pause", "app/j", "--reason", "a test")
		w.must("job", "resume", "app/j")
		w.must("task", "enqueue", "k", "--args", "{}")
	}
	for list, all := range map[string][]string{
		"these are the latest 3; -n 30 shows more, and --to":    {"history", "--events", "app/j", "-n"},
		"these are the oldest 1; -n 10 shows more, and --after": {"task", "list", "-n"},
	} {
		whole, short := "4", "3"
		if all[0] == "task" {
			whole, short = "2", "1"
		}
		for _, form := range []string{"table", "json"} {
			args := append(all[:len(all):len(all)], whole, "-o", form)
			if p := w.dibs(args...).exits(0, patience); strings.Contains(p.stderr(), list) {
				t.Errorf("a whole list: %s", p)
			}
			args[len(all)] = short
			if p := w.dibs(args...).exits(0, patience); !strings.Contains(p.stderr(), list) || strings.Contains(p.stdout(), list) {
				t.Errorf("a list that is cut: %s", p)
			}
		}
	}
	stop(server)
}

func TestHistoryOfWhatRunsAndOfWhatBeganLate(t *testing.T) {
	w := fileWorld(t)
	w.run("ended", nil, shell("exit 1")).exits(1, patience)
	w.run("late", []string{"--scope", "host", "--once-per", dueNow()}, shell("exit 0")).exits(0, patience)
	holder := w.run("runs", nil, w.work("runs", work{For: 5 * time.Minute}))
	w.hears(patience, 1, "start", "runs")
	only := func(want string, args ...string) {
		t.Helper()
		var jobs []string
		for _, en := range w.history(args...) {
			jobs = append(jobs, en.Job)
		}
		if got := strings.Join(jobs, " "); got != want {
			t.Errorf("history %v: %q, want %q", args, got, want)
		}
	}
	only("runs", "--running")
	only("runs", "--outcome", "running")
	only("runs ended", "--running", "--failed")
	only("", "--outcome", "waiting")
	only("late", "--late", "1us")
	only("", "--late", "1h")
	only("", "--late", "1us", "--failed")
	var late []struct {
		Late float64 `json:"late_seconds"`
	}
	if w.recall(&late, "--late", "1us"); len(late) != 1 || late[0].Late <= 0 || late[0].Late > 300 {
		t.Errorf("%+v", late)
	}
	w.dibs("history", "--late", "-1s").exits(2, patience).says("--late")
	holder.signal(15)
}

// A name that nobody knows is answered with the one that was meant.
func TestTheNameThatWasMeant(t *testing.T) {
	w := fileWorld(t)
	w.run("report", []string{"--once-per", dueNow(), "--scope", "host"}, shell("exit 0")).exits(0, patience)
	w.run("shop/clean", nil, shell("exit 0")).exits(0, patience)
	for _, args := range [][]string{
		{"explain", "reprot"}, {"history", "reprot"}, {"job", "show", "reprot"}, {"job", "pause", "reprot", "--reason", "r"},
		{"job", "forget", "reprot"}, {"lease", "show", "reprot"}, {"lease", "break", "reprot"}, {"show", "reprot"},
	} {
		w.dibs(args...).exits(1, patience).says("did you mean report?")
	}
	w.dibs("history", "claen").exits(1, patience).says("did you mean shop/clean?")
	for _, args := range [][]string{{"history", "invoices"}, {"lease", "break", "report"}} {
		if p := w.dibs(args...).exits(1, patience); strings.Contains(p.stderr(), "did you mean") {
			t.Errorf("%s", p)
		}
	}
}

// A line of a crontab can be tried: it runs though it is not due, uses no tick up, and is recorded as manual.
func TestRunNow(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		now := time.Now().UTC()
		never := strings.Join([]string{"0 0", now.AddDate(0, 0, 15).Format("2 1"), "*"}, " ")
		line := []string{"--once-per", never, "--on-crash", "rerun"}
		w.run("k", line, shell("exit 3")).exits(75, patience)
		w.run("k", append(line, "--now"), shell("exit 3")).exits(3, patience)
		w.run("k", append(line, "--now"), shell("exit 0")).exits(0, patience)
		w.run("k", line, shell("exit 3")).exits(75, patience)
		all := w.history("k")
		if len(all) != 2 || all[0].Tick != nil || all[0].Outcome != "succeeded" || all[1].Outcome != "failed" {
			t.Errorf("%+v", all)
		}
		if out := w.must("history", "k"); strings.Count(out, "manual") != 2 || !strings.Contains(out, "triggered by "+me(t)) {
			t.Errorf("%s", out)
		}
		w.run("due", []string{"--once-per", dueNow(), "--now"}, shell("exit 0")).exits(0, patience)
		w.run("due", []string{"--once-per", dueNow()}, shell("exit 0")).exits(0, patience) // its tick is still there
		w.dibs("job", "trigger", "k").exits(3, patience).says("add --now to that line")
	})
}

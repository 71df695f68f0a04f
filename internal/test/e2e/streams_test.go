//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// outputLine is a line of the JSON log that tells of output.
type outputLine struct {
	Event, Job, Kind, Stream, Line string
	RunID                          string `json:"run_id"`
	Time                           string
	Task                           int64
}

// printedIn are the lines of output in a JSON log, of which each line must be JSON.
func printedIn(t *testing.T, text string) (all []outputLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l outputLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if l.Event == "output" {
			all = append(all, l)
		}
	}
	return all
}

// What a job prints goes to standard output, both streams in their order, and so into the history. With
// --log-json each line of either is one of the log, with its run and its stream.
func TestTheStreamsOfAJob(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"", "--log-json"} {
		t.Run("serve "+flag, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			m := w.jobs(job{"a", "@every 1s", `{}`, []string{"sh", "-c", "echo fine; echo worse >&2; printf 'no end'"}})
			args := []string{"serve", m, "--default-scope", w.scope()}
			if flag != "" {
				args = append(args, flag)
			}
			p := w.dibs(args...)
			ran := func() (ids []string) {
				for _, e := range w.history() {
					if e.Outcome == "succeeded" {
						ids = append(ids, e.Runs[0].RunID)
					}
				}
				return ids
			}
			eventually(t, patience, func() bool { return len(ran()) > 1 }, p.String)
			stop(p)
			kept := w.must("history", "--log", "--run", ran()[0])
			for _, line := range []string{"fine\n", "worse\n", "no end"} {
				if !strings.Contains(kept, line) {
					t.Errorf("kept is %q", kept)
				}
			}
			if flag == "" && kept != "fine\nworse\nno end" {
				t.Errorf("kept out of order: %q", kept)
			}
			if flag == "" {
				if out := p.stdout(); !strings.Contains(out, "a | fine\na | worse\na | no end\n") {
					t.Errorf("printed %q", out)
				}
				return
			}
			if p.stdout() != "" {
				t.Errorf("printed beside the log: %q", p.stdout())
			}
			got := map[string]string{}
			for _, l := range printedIn(t, p.stderr()) {
				if l.Job != "app/a" || l.Time == "" {
					t.Errorf("%+v", l)
				}
				got[l.RunID] += l.Stream + ":" + l.Line + "\n"
			}
			for _, id := range ran() {
				if text := got[id]; strings.Count(text, "\n") != 3 || !strings.Contains(text, "stderr:worse\n") ||
					strings.Index(text, "stdout:fine\n") > strings.Index(text, "stdout:no end\n") {
					t.Errorf("%s: %q", id, text)
				}
			}
		})
		t.Run("work "+flag, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			w.must("task", "enqueue", "k", "--args", "{}")
			args := []string{"work", "default"}
			if flag != "" {
				args = append(args, flag)
			}
			p := w.dibs(append(args, "--", "sh", "-c", "echo fine; printf 'worse' >&2")...)
			eventually(t, patience, func() bool { return strings.Contains(w.must("task", "list", "--state", "succeeded"), "succeeded") }, p.String)
			stop(p)
			if flag == "" {
				if p.stdout() != "fine\n" || !strings.Contains(p.stderr(), "worse") {
					t.Errorf("printed %q and\n%s", p.stdout(), p.stderr())
				}
				return
			}
			got := ""
			for _, l := range printedIn(t, p.stderr()) {
				got += fmt.Sprint(l.Stream, ":", l.Line, " ", l.Kind, " ", l.Task > 0 && l.RunID != "", "\n")
			}
			if p.stdout() != "" || got != "stdout:fine k true\nstderr:worse k true\n" && got != "stderr:worse k true\nstdout:fine k true\n" {
				t.Errorf("printed %q, and logged\n%s", p.stdout(), got)
			}
		})
	}
}

//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// logged is what `dibs history --log -o json` says.
type logged struct {
	RunID, Outcome, Reason string
	Printed                int64 `json:"output_bytes"`
	Truncated              bool  `json:"output_truncated"`
	Output                 string
	Attempts               []struct {
		Outcome  string
		Status   int
		Error    string
		Printed  int64 `json:"output_bytes"`
		Response *struct {
			Headers   map[string]string
			FirstByte float64 `json:"first_byte_seconds"`
			Body      int64   `json:"body_bytes"`
		}
	}
}

// A command that prints without end is stopped at its timeout; dibs holds a bounded part of what it
// printed, keeps the end of it, and records how much there was.
// Holds: promise 14.
func TestACommandThatFillsItsOutput(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	path := w.jobs(job{"flood", "@daily", `{"timeout_seconds": 5, "stop_grace_seconds": 1}`, []string{"sh", "-c", "while :; do head -c 1000000 /dev/zero | tr '\\0' y; echo; done"}})
	p := w.dibs("trigger", "app.flood", "--manifest", path, "--now")
	peak := 0 // in KiB
	for p.running() {
		if n, ok := peakMemory(p.Process.Pid); ok {
			peak = max(peak, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.exits(2, time.Second).says("timed_out")
	var l logged
	w.decode(&l, "history", "app.flood", "--log", "-o", "json")
	if l.Outcome != "timed_out" || !l.Truncated || len(l.Output) != 64<<10 || l.Printed <= 64<<10 || l.Attempts[0].Printed != l.Printed {
		t.Errorf("%s after %d bytes, truncated %v, kept %d: %+v", l.Outcome, l.Printed, l.Truncated, len(l.Output), l.Attempts)
	}
	// An idle dibs has some 40 MiB resident; a part of what was printed must not be on top of that.
	if peak == 0 || peak > 150<<10 {
		t.Errorf("%d KiB were resident after %d bytes of output", peak, l.Printed)
	}
}

// peakMemory is the most that was resident of a process, in KiB.
func peakMemory(pid int) (int, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	return n, err == nil
}

// An application's answer is kept with the run; one that never ends its answer, or whose Retry-After is absurd, is
// bounded and on record.
// Holds: promise 14.
func TestWhatAnApplicationAnswers(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	app := newApplication(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "try again")
		case 2:
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Set-Cookie", "session=hunter2")
			fmt.Fprint(w, "done\n")
		case 3:
			for {
				if _, err := w.Write(make([]byte, 4<<10)); err != nil {
					return
				}
			}
		case 4:
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	request := map[string]any{"url": app.URL + "/?key=hunter2"}
	text, err := json.Marshal(map[string]any{"version": 1, "app": "app", "jobs": []any{
		map[string]any{"name": "twice", "schedule": "@daily", "request": request, "policy": map[string]any{"retries": map[string]any{"min_seconds": 0, "max_seconds": 1}}},
		map[string]any{"name": "endless", "schedule": "@daily", "request": request, "policy": map[string]any{"timeout_seconds": 5, "retries": map[string]any{"max_attempts": 1}}},
		map[string]any{"name": "later", "schedule": "@daily", "request": request, "policy": map[string]any{"deadline_seconds": 6}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := w.write("jobs.json", string(text))
	fire := func(name string, status int) (l logged) {
		t.Helper()
		w.dibs("trigger", "app."+name, "--manifest", path, "--now").exits(status, patience)
		out := w.must("history", "app."+name, "--log", "-o", "json")
		if strings.Contains(out, "hunter2") {
			t.Errorf("a secret is on record: %s", out)
		}
		if err := json.Unmarshal([]byte(out), &l); err != nil {
			t.Fatal(err, out)
		}
		return l
	}

	l := fire("twice", 0)
	if l.Outcome != "succeeded" || l.Output != "try again\ndone\n" || l.Printed != 15 || len(l.Attempts) != 2 || l.Attempts[0].Status != 503 {
		t.Fatalf("%+v", l)
	}
	if r := l.Attempts[1].Response; r == nil || r.Body != 5 || r.FirstByte <= 0 || r.Headers["Content-Type"] != "text/plain" || r.Headers["Date"] == "" {
		t.Errorf("%+v", r)
	}
	if w.must("history", "app/twice", "--log") != "try again\ndone\n" {
		t.Error("the log differs")
	}
	l = fire("endless", 2)
	if a := l.Attempts[0]; l.Outcome != "timed_out" || a.Status != 200 || !strings.Contains(a.Error, "the answer had not ended") || a.Response.Body <= 64<<10 || a.Printed != 64<<10 || !l.Truncated || l.Printed != a.Response.Body {
		t.Errorf("%+v", l)
	}
	l = fire("later", 2) // the deadline ends the hour that Retry-After is taken as
	if l.Outcome != "timed_out" || len(l.Attempts) != 1 || !strings.Contains(l.Attempts[0].Error, "Retry-After is taken as 1h0m0s, the most") {
		t.Errorf("%+v", l)
	}
}

//go:build linux

package e2e

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What the command of `dibs run` prints goes where it always went, and its end is in the history.
func TestRunKeepsItsOutput(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	p := w.run("k", nil, shell("echo out; echo err >&2; printf 'no\\0end'; exit 7")).exits(7, patience)
	if p.stdout() != "out\nno\x00end" || p.stderr() != "err\n" {
		t.Errorf("printed %s", p)
	}
	if kept := w.must("history", "k", "--log"); len(kept) != len("out\nerr\nno\x00end") || !strings.Contains(kept, "err\n") || !strings.Contains(kept, "no\x00end") {
		t.Errorf("kept %q", kept)
	}
	// One file for both: their order is kept, here and there.
	cmd := w.running("both", nil, shell("for i in $(seq 200); do echo $i; echo $i >&2; done"))
	both, err := os.Create(w.path("both"))
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	cmd.Stdout, cmd.Stderr = both, both
	w.start(cmd).exits(0, patience)
	want := ""
	for i := range 200 {
		n := strings.Repeat(strconv.Itoa(i+1)+"\n", 2)
		want += n
	}
	if got := w.read("both"); got != want {
		t.Errorf("printed %q", got)
	}
	if got := w.must("history", "both", "--log"); got != want {
		t.Errorf("kept %q", got)
	}
	for _, flags := range [][]string{{"--no-output"}, {"--leftovers", "leave"}} {
		key := strings.Trim(flags[0], "-")
		p := w.run(key, flags, shell("echo out; echo err >&2")).exits(0, patience)
		if p.stdout() != "out\n" || p.stderr() != "err\n" {
			t.Errorf("printed %s", p)
		}
		if kept := w.must("history", key, "--log"); kept != "" {
			t.Errorf("kept %q", kept)
		}
	}
}

// A slow reader gets all of it, and the lease is free meanwhile; one that has gone is a broken pipe for the command.
func TestTheReadersOfARun(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	const size = 90_000 // more than one pipe takes, less than two
	cmd := w.running("slow", nil, shell("head -c 90000 /dev/zero; exit 5"))
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = wr
	p := w.start(cmd)
	wr.Close()
	eventually(t, patience, func() bool { h := w.history("slow"); return len(h) == 1 && h[0].Outcome == "failed" }, p.String)
	eventually(t, patience, func() bool { return !strings.Contains(w.must("lease", "list"), "held") }, func() string { return w.must("lease", "list") })
	if b, err := io.ReadAll(r); err != nil || len(b) != size {
		t.Errorf("%d bytes of %d came: %v", len(b), size, err)
	}
	p.exits(5, patience)

	cmd = w.running("gone", nil, []string{"yes"})
	if r, wr, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = wr
	p = w.start(cmd)
	wr.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "y\n" {
		t.Errorf("%q, %v", line, err)
	}
	r.Close()
	p.exits(128+int(syscall.SIGPIPE), patience)
}

// switchboard records the pings that come to it.
type switchboard struct {
	*httptest.Server
	mu     sync.Mutex
	paths  []string
	bodies []string
	status int
	hold   chan struct{} // nil: answers at once
}

func newSwitchboard(t *testing.T) *switchboard {
	s := &switchboard{status: 200}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.paths, s.bodies = append(s.paths, r.URL.Path), append(s.bodies, string(b))
		hold, status := s.hold, s.status
		s.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *switchboard) pinged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.paths, " ")
}

// A crontab line has what a job of a manifest has: a dead-man's switch hears of each start and of how it ended, and of
// nothing that was not started. Its address is not the command's to see, nor the log's to show.
func TestRunPings(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	s := newSwitchboard(t)
	address := s.URL + "/c0ffee"
	reset := func() { s.mu.Lock(); s.paths, s.bodies = nil, nil; s.mu.Unlock() }
	for name, c := range map[string]struct {
		flags, env []string
		script     string
		status     int
		want       string
	}{
		"success":  {[]string{"--ping", address}, nil, "true", 0, "/c0ffee/start /c0ffee"},
		"failure":  {[]string{"--ping", address}, nil, "echo no space left; exit 3", 3, "/c0ffee/start /c0ffee/fail"},
		"killed":   {[]string{"--ping", address}, nil, "kill -KILL $$", 137, "/c0ffee/start /c0ffee/fail"},
		"timeout":  {[]string{"--ping", address, "--timeout", "200ms"}, nil, "sleep 300", 124, "/c0ffee/start /c0ffee/fail"},
		"variable": {nil, []string{"DIBS_PING=" + address}, "! env | grep -F c0ffee", 0, "/c0ffee/start /c0ffee"},
		"named":    {[]string{"--ping", "env:SWITCH"}, []string{"SWITCH=" + address}, "! env | grep -F c0ffee", 0, "/c0ffee/start /c0ffee"},
		"file":     {nil, []string{"DIBS_PING=file:" + w.write("ping", address+"\n")}, "true", 0, "/c0ffee/start /c0ffee"},
	} {
		reset()
		cmd := w.running("k", c.flags, shell(c.script))
		cmd.Env = append(cmd.Environ(), c.env...)
		p := w.start(cmd).exits(c.status, patience)
		if got := s.pinged(); got != c.want {
			t.Errorf("%s: pinged %q, want %q\n%s", name, got, c.want, p)
		}
		if name == "failure" && !strings.Contains(s.bodies[1], "no space left") {
			t.Errorf("told %q", s.bodies)
		}
	}
	reset()
	busy := w.run("k", nil, w.work("busy", work{Until: w.path("go")}))
	w.hears(patience, 1, "start", "busy")
	w.run("k", []string{"--ping", address}, []string{"true"}).exits(75, patience)
	w.create("go")
	busy.exits(0, patience)
	w.run("d", []string{"--once-per", "1h"}, []string{"true"}).exits(0, patience)
	w.run("d", []string{"--once-per", "1h", "--ping", address}, []string{"true"}).exits(75, patience)
	if got := s.pinged(); got != "" {
		t.Errorf("what was not started pinged %q", got)
	}
	for _, bad := range []string{"", "nonsense", "ftp://c0ffee", "env:NO_SUCH", "file:" + w.path("no-such")} {
		p := w.run("k", []string{"--ping", bad}, []string{"touch", w.path("ran")}).exits(125, patience).says("--ping")
		if _, err := os.Stat(w.path("ran")); err == nil || strings.Contains(p.stderr(), "c0ffee") {
			t.Errorf("%q: %s", bad, p)
		}
	}
}

// A switch that refuses, or that never answers, holds up neither the work nor the release, and changes no status.
func TestRunWithASwitchThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"slow", "refusing", "gone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			s := newSwitchboard(t)
			switch name {
			case "slow":
				s.hold = make(chan struct{})
				defer close(s.hold)
			case "refusing":
				s.status = http.StatusServiceUnavailable
			case "gone":
				s.Close()
			}
			// The lease is free, whatever the first one still waits for: the next run begins before that one gives up.
			// On a machine that is slow it may begin later all the same, but not each time.
			for try := 0; ; try++ {
				p := w.run("k", []string{"--ping", s.URL + "/c0ffee"}, shell("exit 3"))
				eventually(t, patience, func() bool { h := w.history("k"); return len(h) == 2*try+1 && h[0].Outcome == "failed" }, p.String)
				w.run("k", []string{"--wait", "2m"}, []string{"true"}).exits(0, patience)
				p.exits(3, patience).says("level=WARN", "hook")
				if strings.Contains(p.stderr(), "c0ffee") {
					t.Errorf("the address is shown: %s", p)
				}
				gaveUp := regexp.MustCompile(`time=(\S+) level=WARN .* on=failure`).FindStringSubmatch(p.stderr())
				if gaveUp == nil {
					t.Fatalf("it does not say when it gave up: %s", p)
				}
				at, err := time.Parse(time.RFC3339Nano, gaveUp[1])
				if err != nil {
					t.Fatal(err)
				}
				if begun := w.history("k")[0].Runs[0].Started; begun.Before(at) {
					break
				} else if try == 5 {
					t.Fatalf("the next run began at %s: %s", begun, p)
				}
			}
		})
	}
}

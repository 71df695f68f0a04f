//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a child of dibs inherits, of each kind, is a closed list. Whatever is not on it fails the test:
// put it there only if every such command may have it.

// report is a command that writes to its argument what it has inherited.
const report = `f=$1.$$
echo == descriptors >>$f; ls -l /proc/self/fd >>$f
echo == status >>$f; cat /proc/self/status >>$f
echo == stat >>$f; cat /proc/self/stat >>$f
echo == environment >>$f; tr '\0' '\n' </proc/$$/environ >>$f
mv $f $1`

// An inheritance is what a report says.
type inheritance struct {
	descriptors map[int]string // where each leads; but the first, which the report itself redirects
	environment []string       // the names
	status      map[string]string
	session     int
	tty         string
}

// A legacy is what a kind of child may inherit.
type legacy struct {
	descriptors map[int]string // patterns of path.Match, in which * is also a slash
	environment []string       // patterns of path.Match
	user        int            // 0: dibs's own
	session     bool           // it has one of its own
}

var (
	ofEverybody = []string{"PATH", "HOME", "TZ", "DIBS_DIR", "DIBS_CGROUP"}
	// What its processes are found by.
	ofRuns     = []string{"DIBS_RUN_ID", "DIBS_RUN_PARENTS", "DIBS_RUN_PROOFS", "DIBS_STORE_VIA"}
	ofAttempts = []string{"DIBS_KEY", "DIBS_TOKEN", "DIBS_ATTEMPT", "DIBS_IDEMPOTENCY_KEY", "DIBS_TICK",
		"DIBS_PREVIOUS_SUCCESS", "DIBS_PREVIOUS_SUCCESS_UNKNOWN", "TRACEPARENT"}
	ofTasks = []string{"DIBS_TASK", "DIBS_KIND", "DIBS_QUEUE", "DIBS_TAGS"}
	ofHooks = []string{"DIBS_HOOK", "DIBS_HOOK_*"}
	ofUsers = []string{"USER", "LOGNAME"}
)

func names(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// A command inherits the variables and the descriptor that it should, and no others.
// Holds: promise 28.
func TestWhatChildrenInherit(t *testing.T) {
	t.Parallel()
	// Both from a store of files, whose lock has a descriptor, and from a server, which has none.
	for _, w := range []*world{fileWorld(t), newWorld(t, "redis", servers[0].shared(t), usualTTL)} {
		t.Run(w.name, func(t *testing.T) { w.in(t, "HOOK_SECRET=hunter2").inherits() })
	}
}

func (w *world) inherits() {
	// Another user can write there.
	dir, err := os.MkdirTemp("", "dibs-inherits-")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		w.t.Fatal(err)
	}
	reporter := func(kind string) []string { return []string{"/bin/sh", "-c", report, "sh", filepath.Join(dir, kind)} }

	lock := map[int]string{}
	if w.name == "file" { // the one descriptor: of a command that is the same user as dibs
		lock[3] = w.host() + "/*"
	}
	passed := maps.Clone(lock) // what its caller has given it
	for _, n := range leaks() {
		passed[n] = "*"
	}
	passed[7], passed[9] = "/etc/passwd", "/etc/hostname"
	legacies := map[string]legacy{
		"run":  {passed, names(ofEverybody, ofRuns, ofAttempts, []string{"HOOK_SECRET"}), 0, true},
		"work": {nil, names(ofEverybody, ofRuns, ofAttempts, ofTasks, []string{"HOOK_SECRET"}), 0, true},
		// A condition is a command like any other, and has no more than one: it needs a guardian for that.
		"when": {nil, names(ofEverybody, ofRuns), 0, false},
		"hook": {nil, names(ofEverybody, ofRuns, ofHooks), 0, true},
	}
	commands := map[string]legacy{"own": {lock, names(ofEverybody, ofRuns, ofAttempts), 0, true}}
	if os.Geteuid() == 0 {
		commands["nobody"] = legacy{nil, names(ofEverybody, ofRuns, ofAttempts, ofUsers), 65534, true}
	}
	for _, by := range []string{"serve", "trigger"} {
		var jobs []any
		for name, l := range commands {
			kind := by + "-" + name
			legacies[kind] = l
			j := map[string]any{"name": name, "schedule": "@every 1s", "command": reporter(kind), "dir": "/", "auth": map[string]any{"secret_refs": []string{"env:HOOK_SECRET"}}}
			if l.user != 0 {
				j["user"] = strconv.Itoa(l.user)
			} else {
				j["when"] = reporter("when")
				j["hooks"] = []any{map[string]any{"on": []string{"success"}, "command": reporter("hook")}}
			}
			jobs = append(jobs, j)
		}
		text, err := json.Marshal(map[string]any{"version": 1, "app": by, "jobs": jobs})
		if err != nil {
			w.t.Fatal(err)
		}
		w.write(by+".json", string(text))
	}

	// Descriptors without close-on-exec reach dibs and, but for the command of `dibs run`, end there.
	var started []*process
	begin := func(args ...string) {
		cmd := w.command("/bin/sh", append([]string{"-c", `exec 7</etc/passwd 9</etc/hostname; unset PWD; exec "$0" "$@"`, dibsBinary}, args...)...)
		started = append(started, w.start(cmd))
	}
	begin(w.running("run", nil, reporter("run")).Args[1:]...)
	begin(w.serving(dibsBinary, w.path("serve.json")).Args[1:]...)
	for name := range commands {
		begin("trigger", "trigger."+name, "--manifest", w.path("trigger.json"), "--now", "--default-scope", w.scope())
	}
	w.must("task", "enqueue", "kind", "--queue", "q", "--args", "{}")
	begin(append([]string{"work", "q", "--"}, reporter("work")...)...)

	for kind, l := range legacies {
		file := filepath.Join(dir, kind)
		eventually(w.t, patience, func() bool { _, err := os.Stat(file); return err == nil },
			func() string { return fmt.Sprintf("%s reported: %v", kind, started) })
		text, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Run(kind, func(t *testing.T) {
			for _, problem := range l.exceeded(readInheritance(t, string(text)), started) {
				t.Error(problem)
			}
		})
	}
	for _, p := range started {
		_ = p.Process.Signal(syscall.SIGTERM) // to some of them it comes when they have just ended
	}
	for _, p := range started {
		p.wait(patience)
	}
}

// leaks are the descriptors above 2 that whoever runs this test has left to it and its children.
func leaks() (fds []int) {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, f := range open {
		fd, _ := strconv.Atoi(f.Name())
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

func (w *world) scope() string {
	if w.name == "file" {
		return "host"
	}
	return "global"
}

var descriptor = regexp.MustCompile(`(\d+) -> (.*)$`)

func readInheritance(t *testing.T, text string) inheritance {
	t.Helper()
	in := inheritance{descriptors: map[int]string{}, status: map[string]string{}}
	for _, part := range strings.Split(text, "== ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		for line := range strings.SplitSeq(strings.TrimSpace(rest), "\n") {
			switch title {
			case "descriptors":
				m := descriptor.FindStringSubmatch(line)
				if m == nil || strings.HasPrefix(m[2], "/proc/") || m[1] == "1" { // the report's own
					continue
				}
				n, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				in.descriptors[n] = m[2]
			case "status":
				name, value, _ := strings.Cut(line, ":")
				in.status[name] = strings.TrimSpace(value)
			case "stat":
				_, rest, _ := strings.Cut(line, ") ")
				fields := strings.Fields(rest) // state, parent, group, session, tty
				in.session, _ = strconv.Atoi(fields[3])
				in.tty = fields[4]
			case "environment":
				name, _, _ := strings.Cut(line, "=")
				in.environment = append(in.environment, name)
			}
		}
	}
	if len(in.status) == 0 || len(in.environment) == 0 || in.session == 0 || in.descriptors[0] == "" || in.descriptors[2] == "" {
		t.Fatalf("the report is not understood: %+v of %s", in, text)
	}
	return in
}

// exceeded says what is inherited beyond the legacy.
func (l legacy) exceeded(in inheritance, by []*process) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for n, to := range in.descriptors {
		switch want, ok := l.descriptors[n]; {
		case n <= 2:
			// Standard files: those of whoever called `dibs run`, pipes to dibs, or nothing.
			if to != "/dev/null" && !strings.HasPrefix(to, "pipe:[") && !strings.Contains(to, "/out-") {
				say("standard file %d leads to %s", n, to)
			}
		case !ok:
			say("descriptor %d leads to %s", n, to)
		default:
			if match, _ := path.Match(strings.ReplaceAll(want, "/", "|"), strings.ReplaceAll(to, "/", "|")); !match {
				say("descriptor %d leads to %s, want %s", n, to, want)
			}
		}
	}
	for _, name := range in.environment {
		allowed := false
		for _, pattern := range l.environment {
			match, _ := path.Match(pattern, name)
			allowed = allowed || match
		}
		if !allowed {
			say("environment variable %s", name)
		}
	}
	own := ownStatus
	want := map[string]string{"SigBlk": own["SigBlk"], "SigIgn": own["SigIgn"], "CapInh": own["CapInh"], "CapAmb": own["CapAmb"],
		"CapPrm": own["CapPrm"], "CapEff": own["CapEff"], "CapBnd": own["CapBnd"], "Uid": own["Uid"], "Gid": own["Gid"], "Groups": own["Groups"]}
	if l.user != 0 {
		const none = "0000000000000000"
		id := strings.TrimSuffix(strings.Repeat(strconv.Itoa(l.user)+"\t", 4), "\t")
		for name, value := range map[string]string{"CapPrm": none, "CapEff": none, "Uid": id, "Gid": id, "Groups": strconv.Itoa(l.user)} {
			want[name] = value
		}
	}
	for name, value := range want {
		if got := in.status[name]; got != value {
			say("%s is %q, want %q", name, got, value)
		}
	}
	for _, p := range by {
		if session := sessionOf(os.Getpid()); l.session && (in.session == session || in.session == p.Process.Pid) {
			say("it is in the session %d of dibs", in.session)
		}
	}
	if l.session && in.tty != "0" {
		say("it has the terminal %s", in.tty)
	}
	return problems
}

// ownStatus is that of this process before the tests, from which dibs has its own.
var ownStatus map[string]string

// statusOfThis reads the status of the thread that reads: one that starts another blocks all signals meanwhile.
func statusOfThis() map[string]string {
	b, _ := os.ReadFile("/proc/thread-self/status")
	own := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		own[name] = strings.TrimSpace(value)
	}
	return own
}

func sessionOf(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	n, _ := strconv.Atoi(strings.Fields(rest)[3])
	return n
}

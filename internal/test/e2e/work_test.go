//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A work is a command for dibs to run, played by the test binary. It tells the log in its directory
// what happens to it. It also is the observer: all that it starts shares one kernel lock, so a work
// that starts while anything of an earlier one lives finds the lock taken, and says so.
type work struct {
	Dir    string
	Name   string
	For    time.Duration
	Until  string        `json:",omitempty"` // a file to wait for, after For
	Family bool          `json:",omitempty"` // start a child, and a grandchild in a session of its own that nobody waits for
	Bare   bool          `json:",omitempty"` // that grandchild has nothing of our environment either
	Linger time.Duration `json:",omitempty"` // how long the family lives, at most; default 5 minutes
	Deaf   bool          `json:",omitempty"` // do not end on TERM
	Status int           `json:",omitempty"`
}

// An entry of the log.
type said struct {
	What    string // start, born (one of the family), a signal's name, end
	Name    string
	PID     int
	At      time.Time
	Overlap bool              `json:",omitempty"`
	Env     map[string]string `json:",omitempty"` // at start: the whole environment
}

var parts = map[string]func([]string){"work": playWork, "linger": linger, "detach": detach}

// args is the command line that plays it.
func (w work) args() []string {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return []string{os.Args[0], "work", string(b)}
}

func (w work) say(s said) {
	s.Name, s.PID, s.At = w.Name, os.Getpid(), time.Now()
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(logOf(w.Dir), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil { // one write: lines of several processes do not mix
		panic(err)
	}
}

func logOf(dir string) string { return filepath.Join(dir, "log") }

func parseWork(args []string) (w work) {
	if err := json.Unmarshal([]byte(args[0]), &w); err != nil {
		panic(err)
	}
	return w
}

func playWork(args []string) {
	w := parseWork(args)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	busy, err := os.OpenFile(filepath.Join(w.Dir, "busy"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	overlap := syscall.Flock(int(busy.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
	w.say(said{What: "start", Overlap: overlap, Env: environment()})
	if w.Family {
		w.start(busy, "linger")
		w.start(busy, "detach")
	}
	w.labour(signals)
	w.say(said{What: "end"})
	os.Exit(w.Status)
}

// labour works for as long as it should, or until a signal ends it.
func (w work) labour(signals <-chan os.Signal) {
	done := time.After(w.For)
	var look <-chan time.Time // for the file, once it is time
	for {
		select {
		case <-done:
			if w.Until == "" {
				return
			}
			look = time.Tick(20 * time.Millisecond)
		case <-look:
			if _, err := os.Stat(w.Until); err == nil {
				return
			}
		case s := <-signals:
			w.say(said{What: s.String()})
			if s == syscall.SIGUSR1 || s == syscall.SIGUSR2 || w.Deaf {
				continue
			}
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
			select {} // the signal is on its way
		}
	}
}

// start starts a part that shares the lock.
func (w work) start(busy *os.File, part string) *exec.Cmd {
	b, _ := json.Marshal(w)
	cmd := exec.Command(os.Args[0], part, string(b))
	cmd.ExtraFiles = []*os.File{busy}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// linger is one of the family: deaf, and long-lived.
func linger(args []string) {
	w := parseWork(args)
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	w.say(said{What: "born"})
	if w.Linger == 0 {
		w.Linger = 5 * time.Minute
	}
	time.Sleep(w.Linger)
}

// detach starts one of the family in a session of its own and ends.
func detach(args []string) {
	cmd := exec.Command(os.Args[0], "linger", args[0])
	if parseWork(args).Bare {
		cmd.Env = []string{}
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "busy")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// family is how many processes a work with a family is.
const family = 3

func environment() map[string]string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// heard is what the works in a directory said, in order.
func heard(t *testing.T, dir string) (all []said) {
	t.Helper()
	b, err := os.ReadFile(logOf(dir))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var s said
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%s: %v in %q", logOf(dir), err, line)
		}
		all = append(all, s)
	}
	return all
}

// which selects from what was heard.
func which(all []said, what, name string) (some []said) {
	for _, s := range all {
		if s.What == what && (name == "" || s.Name == name) {
			some = append(some, s)
		}
	}
	return some
}

func (s said) String() string {
	text := fmt.Sprintf("%s %s %s pid %d", s.At.Format("05.000"), s.Name, s.What, s.PID)
	if s.Overlap {
		text += " OVERLAP"
	}
	return text
}

// alive says whether a process lives; one that is dead and not yet reaped does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := strings.LastIndexByte(string(b), ')')
	return i > 0 && i+2 < len(b) && b[i+2] != 'Z' && b[i+2] != 'X'
}

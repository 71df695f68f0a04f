//go:build linux

package command

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"syscall"
	"testing"
)

// The test binary plays all the parts: guardian, and those named by its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "forget" {
		_, err := Start(Spec{Args: []string{"true"}, RunID: "forgotten"})
		fmt.Println(err)
		return
	}
	GuardianMain()
	if len(os.Args) > 1 {
		if play, ok := parts[os.Args[1]]; ok {
			play(os.Args[2:])
			return
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else a guardian with the race detector takes a second to end
	_ = flag.Set("test.parallel", "12")      // most of these tests wait most of the time
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if ossignal.Ignored(s) { // by nohup(1), say: a command would inherit that
			ossignal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

var parts = map[string]func([]string){
	"supervise": supervise,
	"detach":    detach,
	"hop":       hop,
	"sit":       sit,
	"join":      join,
	"count":     count,
	"inherit":   inherit,
	"pass":      pass,
	"starve":    starve,
}

// detach starts a command in a session of its own and ends, which leaves it to a subreaper.
func detach(args []string) {
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// count tells each TERM that it gets, and ends by none. It leaves behind, in a session of its own, one that does the
// same.
func count(args []string) {
	terms := make(chan os.Signal, 10)
	ossignal.Notify(terms, syscall.SIGTERM)
	if args[0] == "first" {
		c := exec.Command(os.Args[0], "count", "second", args[1])
		c.SysProcAttr, c.Stdout = &syscall.SysProcAttr{Setsid: true}, os.Stdout
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Println(args[0], "up")
	for range terms {
		fmt.Println(args[0], "term")
	}
}

// hop runs away: each generation starts the next in a session of its own, and ends.
func hop(args []string) { detach(append([]string{os.Args[0], "hop"}, args...)) }

// A part of a supervisor, for supervise: what to run.
type part struct {
	Args      []string
	RunID     string
	Lock      string // a file to lock
	HoldLocks bool
	Ungrouped bool // DIBS_CGROUP=off is in the supervisor's environment
}

// supervise starts a part, and tells on descriptor 3 once it is started. Its standard input has deadlines, and it
// tells once it has extended the command's to one.
func supervise(args []string) {
	var p part
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		panic(err)
	}
	s := Spec{Args: p.Args, RunID: p.RunID, Key: testKey, Stdout: os.Stdout, Stderr: os.Stderr, HoldLocks: p.HoldLocks}
	holder := Self()
	holder.RunID, holder.Cgroup = p.RunID, CgroupFor(testKey, p.RunID)
	if p.Lock != "" {
		f, err := os.OpenFile(p.Lock, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			panic(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			panic(err)
		}
		s.Locks = []*os.File{f}
	}
	tell := json.NewEncoder(os.NewFile(3, "tell"))
	proc, err := Start(s)
	if err != nil {
		panic(err)
	}
	for _, f := range s.Locks {
		f.Close()
	}
	_ = tell.Encode(started{PID: proc.Pid(), Warden: proc.warden.pid, Guardian: proc.guardian.pid, Holder: holder})
	told := json.NewDecoder(os.Stdin)
	for {
		var d Deadline
		if told.Decode(&d) != nil {
			select {}
		}
		if err := proc.Extend(d); err != nil {
			panic(err)
		}
		_ = tell.Encode("extended")
	}
}

//go:build linux

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
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
	os.Exit(m.Run())
}

var parts = map[string]func([]string){
	"supervise": supervise,
	"detach":    detach,
	"hop":       hop,
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

// hop runs away: each generation starts the next in a session of its own, and ends.
func hop(args []string) { detach(append([]string{os.Args[0], "hop"}, args...)) }

// A part of a supervisor, for supervise: what to run, and for how long without a renewal.
type part struct {
	Args       []string
	RunID      string
	Term, Kill time.Duration // from now; zero is none
	Lock       string        // a file to lock
	HoldLocks  bool
	Leftovers  Leftovers
}

// supervise starts a part and tells on descriptor 3 once it is started, and then once it is empty.
func supervise(args []string) {
	var p part
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		panic(err)
	}
	s := Spec{Args: p.Args, RunID: p.RunID, Key: testKey, Stdout: os.Stdout, Stderr: os.Stderr, HoldLocks: p.HoldLocks, Leftovers: p.Leftovers}
	now := clock.System.Boot()
	if p.Term > 0 {
		s.Deadline.Term = now + p.Term
	}
	if p.Kill > 0 {
		s.Deadline.Kill = now + p.Kill
	}
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
	_ = tell.Encode(started{PID: proc.Pid(), Warden: proc.warden.pid, Guardian: proc.guardian.pid, Self: Self()})
	<-proc.Empty()
	_ = tell.Encode("empty")
	select {}
}

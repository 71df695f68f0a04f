//go:build linux

package command

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
)

// A command that ended by itself while its guardian was stopped was not ended by the deadline that passed
// meanwhile, whatever the guardian does first when it goes on (rule L7). It is a race: there are several.
// Holds: promise 3, L7.
func TestACommandThatEndedBeforeItsDeadlineWasNotEndedByIt(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		var ended []*Process
		for range 6 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			id, term := newRun(t), clock.System.Boot()+3*time.Second
			p := start(t, Spec{Args: shell(id, "read x; exit 0"), Stdin: r, RunID: id, Deadline: Deadline{Term: term, Kill: term + time.Hour}})
			p.guardian.signal(syscall.SIGSTOP)
			awaitState(t, p.guardian.pid, 'T')
			w.Close()
			awaitState(t, p.Pid(), 'Z') // the kernel continues the guardian at Term
			if clock.System.Boot() < term {
				ended = append(ended, p)
			} else {
				t.Log("the machine is slow: a deadline passed first")
			}
		}
		for _, p := range ended {
			if x := within(t, "exit", 3*soon, p.Exited()); x != (Exit{}) {
				t.Errorf("%+v, want status 0 and no deadline", x)
			}
		}
	})
}

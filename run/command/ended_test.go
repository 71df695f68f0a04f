//go:build linux

package command

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// A command that ended by itself while its guardian was stopped was not ended by the deadline that passed
// meanwhile, whatever the guardian does first when it goes on (rule L7). It is a race: there are several.
// Holds: promise 3, L7.
func TestACommandThatEndedBeforeItsDeadlineWasNotEndedByIt(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		var ended []*Process
		for range 6 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			id, term := newRun(t), clock.System.Boot()+3*time.Second
			p := start(t, Spec{Args: shell(id, "read x; exit 0"), Stdin: r, RunID: id, Deadline: Deadline{Term: term, Kill: term + time.Hour},
				ungrouped: ungrouped})
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
			if x := within(t, "exit", soon, p.Exited()); x != (Exit{}) {
				t.Errorf("%+v, want status 0 and no deadline", x)
			}
		}
	})
}

// Rule L7: the main process's end fixes the outcome; what it leaves is stopped later.
// Holds: L7.
func TestSuccessBeforeAStopStays(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	id := newRun(t)
	target := Target{Args: shell(id, `sleep 300 & exit 0`), OnLeftovers: func(int, []int) { cancel(run.ErrTimedOut) }} // it has heard of the end
	all, got, _, recorded := run.Attempts(ctx, target, call(t, id, memory.New(memory.Options{}), io.Discard), run.Limits{}, time.Now)
	recorded()
	if context.Cause(ctx) != run.ErrTimedOut || got != run.Succeeded || all[0].Status != 0 {
		t.Errorf("%s, %+v; want succeeded", got, all)
	}
}

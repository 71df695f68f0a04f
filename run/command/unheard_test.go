//go:build linux

package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// A command that kills its guardian at once has run: that is on record, and it may be retried like any other.
// Holds: L2.
func TestACommandThatKillsItsGuardianHasRun(t *testing.T) {
	t.Parallel()
	id, file := newRun(t), filepath.Join(t.TempDir(), "file")
	const most = 15
	all, outcome, _, recorded := run.Attempts(t.Context(), Target{Args: shell(id, "echo ran >>"+file+"; kill -KILL $PPID")},
		call(t, id, memory.New(memory.Options{}), io.Discard), run.Limits{Attempts: most}, time.Now)
	recorded()
	b, err := os.ReadFile(file)
	if ran := strings.Count(string(b), "ran"); ran != most || len(all) != most || outcome != run.Failed {
		t.Errorf("%s after %d attempts, of which %d ran: %v", outcome, len(all), ran, err)
	}
	for _, a := range all {
		if a.Status != StatusFault || !strings.Contains(a.Error, "was killed") || !strings.Contains(a.Error, "signal: killed") {
			t.Errorf("it has run, and its record says: %d, %q", a.Status, a.Error)
		}
	}
}

// A guardian that was killed before it was about to start the command has not started it.
func TestACommandWhoseGuardianWasKilledBeforeHasNotRun(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		file := filepath.Join(t.TempDir(), "file")
		s := Spec{Args: []string{"touch", file}, RunID: newRun(t), Env: os.Environ(), ungrouped: ungrouped}
		p, err := s.guarded("/usr/bin/touch")
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.first(0)
		if err != nil {
			t.Fatal(err)
		}
		guard := int(m.Guardian)
		signal(t, guard, syscall.SIGSTOP)
		awaitState(t, guard, 'T')
		killed := make(chan error)
		go func() { killed <- syscall.Kill(guard, syscall.SIGKILL) }()
		_, err = p.begin(s, "/usr/bin/touch")
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		var start *StartError
		if !errors.As(err, &start) || start.Status != StatusFault {
			t.Errorf("%v, want that it was not started", err)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Error("it has run")
		}
	})
}

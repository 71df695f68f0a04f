//go:build linux

package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A guardian that hears too late that it may begin, since it was stopped, starts nothing, whatever its
// supervisor does.
func TestAGuardianThatHearsTooLateStartsNothing(t *testing.T) {
	t.Parallel()
	for _, d := range []Deadline{{Kill: clock.System.Boot()}, {Term: clock.System.Boot()}} {
		s := Spec{RunID: newRun(t), Deadline: d, Env: os.Environ()}
		file := filepath.Join(t.TempDir(), "made")
		s.Args = []string{"sh", "-c", "echo $0 >" + file, s.RunID}
		p, err := s.guard("/bin/sh", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.arm(s); err != nil {
			t.Fatal(err)
		}
		// It says so, or has ended already: its time was up before it was told anything.
		if m, err := p.answer(0); !errors.Is(err, io.EOF) && (err != nil || m.Kind != guardian.Failed || syscall.Errno(m.Value) != syscall.ETIME) {
			t.Errorf("%+v: %+v, %v", d, m, err)
		}
		p.abandon()
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: it was started", d)
		}
	}
}

// Each renewal of the lease moves the deadline of supervisor and guardian.
func TestRenewalsMoveTheDeadline(t *testing.T) {
	t.Parallel()
	k, err := lease.NewKeeper(lease.Options{Store: memory.New(memory.Options{MaxTTL: time.Hour}).Store().Leases, Margin: lease.Margin{TTL: 70 * time.Second,
		Heartbeat: 100 * time.Millisecond, RPCTimeout: 10 * time.Second, LostGrace: 10 * time.Second, Kill: time.Second, Rho: 0.01}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	l, err := k.Acquire(t.Context(), lease.Want{Key: "app/j"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Drop()
	id := newRun(t)
	term, kill := l.Deadlines()
	p := start(t, Spec{Args: shell(id, "sleep 300"), RunID: id, Deadline: Deadline{Term: term, Kill: kill}})
	defer p.follow(l)()
	p.bounds.mu.Lock()
	first := p.bounds.deadline
	p.bounds.mu.Unlock()
	renewed := make(chan struct{}, 100)
	defer l.OnRenew(func() { renewed <- struct{}{} })()
	for range 3 { // all who listen have heard of the first two
		within(t, "a renewal", soon, renewed)
	}
	p.bounds.mu.Lock()
	defer p.bounds.mu.Unlock()
	if now := p.bounds.deadline; now.Term <= first.Term || now.Kill <= first.Kill {
		t.Errorf("after renewals the deadline is %+v; it was %+v", now, first)
	}
}

// Rule L2: a lease that was broken at once leaves no grace, so the command is not asked to end.
// Holds: L2.
func TestABrokenLeaseAsksForNothing(t *testing.T) {
	t.Parallel()
	id, b, out := newRun(t), memory.New(memory.Options{}), newReader()
	c := call(t, id, b, out)
	c.StopGrace = time.Hour
	go func() {
		<-out.line
		_, _ = b.Store().Leases.Break(t.Context(), lease.Ref{Key: "app/j"}, lease.Broken{By: "ann", Why: "a test", Now: true})
	}()
	r := Target{Args: shell(id, `trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done`)}.Attempt(t.Context(), c)
	r.Recorded()
	if r.Status != 128+int(syscall.SIGKILL) || out.got.String() != "up\n" {
		t.Errorf("%+v; it said %q", r, out.got.String())
	}
}

// The first of a deadline and a Stop counts, whichever it is.
func TestTheFirstBoundCounts(t *testing.T) {
	for _, c := range []struct{ kill, stop, want time.Duration }{{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 2, 2}} {
		b := bounds{deadline: Deadline{Kill: c.kill}, stopAt: c.stop}
		if got := b.first(); got != c.want {
			t.Errorf("of a kill at %d and a stop at %d: %d, want %d", c.kill, c.stop, got, c.want)
		}
	}
}

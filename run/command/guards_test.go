//go:build linux

package command

import (
	"bufio"
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// commandOf is the main process of a run: the child of its guardian.
func commandOf(t *testing.T, guardian int) proc.Stat {
	t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		all, _ := proc.All()
		for _, s := range all {
			if s.Parent == guardian {
				return s
			}
		}
	}
	t.Fatal("the guardian has no child")
	return proc.Stat{}
}

// The kernel ends a command with its guardian, also where nobody else can: its supervisor and its warden are stopped.
func TestACommandDiesWithItsGuardian(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id := newRun(t)
		s := inSupervisor(t, part{Args: shell(id, deaf), RunID: id, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		command := commandOf(t, s.Guardian)
		for _, pid := range []int{s.Process.Pid, s.Warden} {
			signal(t, pid, syscall.SIGSTOP)
			awaitState(t, pid, 'T')
		}
		signal(t, s.Guardian, syscall.SIGKILL)
		alive := true
		for end := time.Now().Add(soon); alive && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			now, err := proc.Read(command.PID)
			alive = err == nil && now.Start == command.Start && now.Alive()
		}
		if alive {
			t.Errorf("it outlives its guardian: %v", living(id))
		}
		signal(t, s.Warden, syscall.SIGCONT)
		signal(t, s.Process.Pid, syscall.SIGCONT)
		awaitWorkGone(t, id)
	})
}

// Rule L6: a guardian that lives may still do something, so that nothing is proven, although all else is gone.
// Holds: L6.
func TestALivingGuardianIsNoProof(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id := newRun(t)
		s := inSupervisor(t, part{Args: shell(id, deaf), RunID: id, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		h, command := s.Holder, commandOf(t, s.Guardian)
		signal(t, s.Guardian, syscall.SIGSTOP)
		awaitState(t, s.Guardian, 'T')
		signal(t, s.Process.Pid, syscall.SIGKILL)
		_ = s.Wait()
		signal(t, command.PID, syscall.SIGKILL)
		awaitState(t, command.PID, 'Z') // which its guardian does not reap
		if WorkGone(testKey, h) {
			t.Errorf("it is said to be gone, beside %v", living(id))
		}
		signal(t, s.Guardian, syscall.SIGCONT) // which sees that its supervisor is dead, and ends
	})
}

// silent is a store that does not answer renewals for a time.
type silent struct {
	lease.Store
	now atomic.Bool
}

func (s *silent) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	if s.now.Load() {
		return lease.Reply{}, lease.ErrUnavailable
	}
	return s.Store.Renew(ctx, reqs)
}

// Rule L2: a command that was told to stop with grace, after a silence, is killed by a refusal.
// Holds: L2.
func TestARefusalEndsTheGrace(t *testing.T) {
	t.Parallel()
	id, b := newRun(t), memory.New(memory.Options{MaxTTL: time.Hour})
	st := &silent{Store: b.Store().Leases}
	st.now.Store(true)
	k, err := lease.NewKeeper(lease.Options{Store: st, Margin: lease.Margin{TTL: 2 * time.Minute, Heartbeat: 200 * time.Millisecond,
		RPCTimeout: 200 * time.Millisecond, LostGrace: 115 * time.Second, Kill: time.Second, Rho: 0.001}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	l, err := k.Acquire(t.Context(), lease.Want{Key: "app/j"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Drop()
	_, kill := l.Deadlines()
	go func() {
		<-l.Lost()
		time.Sleep(3 * lookAgain) // the first looks find no refusal
		if _, err := st.Break(context.Background(), lease.Ref{Key: "app/j"}, lease.Broken{By: "ann", Why: "a test", Now: true}); err != nil {
			t.Error(err)
		}
		st.now.Store(false)
	}()
	r := Target{Args: shell(id, `trap 'echo term' TERM; echo up; while :; do sleep 0.02; done`)}.Attempt(t.Context(),
		run.Call{Run: run.Record{ID: id, Job: "app/j", Token: l.Token()}, Attempt: 1, Lease: l, StopGrace: time.Hour, Output: newReader()})
	r.Recorded()
	if clock.System.Boot() >= kill {
		t.Error("it was left its grace")
	}
}

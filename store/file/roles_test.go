//go:build linux

package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

func roleHold(s *store.Store) error { return holdThenRenew(s, s.Properties.MaxTTL) }

// roleHoldShort stops itself before its lease lapses, if it is fast enough.
func roleHoldShort(ttl time.Duration) func(*store.Store) error {
	return func(s *store.Store) error {
		ref, err := holdAndRun(s, ttl)
		if err == nil {
			err = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		if err != nil {
			return err
		}
		return renewed(s, ref)
	}
}

// roleShorten renews its lease for a moment only.
func roleShorten(s *store.Store) error {
	ref, err := holdAndRun(s, s.Properties.MaxTTL)
	if err != nil {
		return err
	}
	r, err := s.Leases.Renew(context.Background(), []lease.RenewRequest{{Ref: ref, TTL: 50 * time.Millisecond}})
	if err == nil {
		fmt.Println(r.Answers[0].Status)
		wait()
	}
	return err
}

func holdThenRenew(s *store.Store, ttl time.Duration) error {
	ref, err := holdAndRun(s, ttl)
	if err != nil {
		return err
	}
	return renewed(s, ref)
}

// renewed says what became of a renewal, once it is told to try.
func renewed(s *store.Store, ref lease.Ref) error {
	wait()
	r, err := s.Leases.Renew(context.Background(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
	if err == nil {
		fmt.Println(r.Answers[0].Status)
	}
	return err
}

func holdAndRun(s *store.Store, ttl time.Duration) (lease.Ref, error) {
	a, err := tryAcquire(s, requestFor("k", ttl))
	if err != nil || a.Status != lease.OK {
		return lease.Ref{}, fmt.Errorf("acquire: %v %w", a.Status, err)
	}
	id := run.NewID()
	err = beginRun(s, a.Record.Ref(), id)
	fmt.Println(int64(a.Record.Token), id)
	return a.Record.Ref(), err
}

// roleHandOn gives its lock to a command, as dibs run does, and keeps renewing the lease.
func roleHandOn(s *store.Store) error {
	ref, err := holdAndRun(s, s.Properties.MaxTTL)
	if err != nil {
		return err
	}
	f, err := s.Descriptor(ref)
	if err != nil {
		return err
	}
	work := exec.Command("sleep", "600")
	work.ExtraFiles = []*os.File{f}
	work.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := work.Start(); err != nil {
		return err
	}
	_ = f.Close()
	if err := s.Detach(ref); err != nil {
		return err
	}
	r, err := s.Leases.Renew(context.Background(), []lease.RenewRequest{{Ref: ref, TTL: s.Properties.MaxTTL}})
	if err != nil {
		return err
	}
	fmt.Println(work.Process.Pid, r.Answers[0].Status)
	wait()
	return nil
}

// roleStress takes and frees one key and looks whether anybody else has it meanwhile.
func roleStress(s *store.Store) error {
	witness := os.Args[1] + "/inside"
	var last lease.Token
	for n := 0; n < 300; {
		a, err := tryAcquire(s, requestFor("k", lease.DefaultTTL))
		if err != nil {
			return err
		}
		if a.Status != lease.OK {
			continue
		}
		f, err := os.OpenFile(witness, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("somebody else holds it as well: %w", err)
		}
		_ = f.Close()
		if a.Record.Token <= last {
			return fmt.Errorf("token %d after %d", a.Record.Token, last)
		}
		last = a.Record.Token
		if err := os.Remove(witness); err != nil {
			return err
		}
		r, err := s.Leases.Release(context.Background(), []lease.Ref{a.Record.Ref()})
		if err != nil || r.Answers[0].Status != lease.OK {
			return fmt.Errorf("release: %v %w", r, err)
		}
		n++
	}
	fmt.Println("done")
	return nil
}

// roleProbe asks about everything, as fast as it can, until it is killed.
func roleProbe(s *store.Store) error {
	fmt.Println("probing")
	for ctx := context.Background(); ; {
		if _, err := s.Leases.Read(ctx, []lease.Key{"k"}); err != nil {
			return err
		}
		if _, err := s.Leases.List(ctx, "", true); err != nil {
			return err
		}
		if _, err := inside(s).leases.alive(lease.Ref{Key: "k", Owner: lease.NewNonce()}); err != nil {
			return err
		}
	}
}

func roleImport(s *store.Store) error {
	runs, err := s.History.Runs(context.Background(), history.Query{Limit: 10_000})
	fmt.Println(len(runs))
	return err
}

// contested is how many ticks roleClaim wants.
const contested = 100

// roleClaim claims and starts what others claim as well, and says what it won.
func roleClaim(s *store.Store) error {
	ctx := context.Background()
	a, err := tryAcquire(s, requestFor(lease.OnceKey(), s.Properties.MaxTTL))
	if err != nil {
		return err
	}
	ref, won := a.Record.Ref(), 0
	for i := range contested {
		at := time.Unix(1_600_000_000, 0).Add(time.Duration(i) * time.Minute)
		c, err := s.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: "j", At: at, Lease: ref}})
		if err != nil {
			return err
		}
		if c[0].Status != tick.Won {
			continue
		}
		won++
		r := run.Record{ID: run.NewID(), Job: "j", Tick: at}
		if b, err := s.Ticks.Start(ctx, []tick.StartRequest{{Run: r, Claim: ref, Lease: ref}}); err != nil || b[0].Status != tick.Won {
			return fmt.Errorf("start: %v %w", b, err)
		}
	}
	fmt.Println(won)
	wait()
	return nil
}

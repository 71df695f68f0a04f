//go:build linux

package file

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// soon is far below the TTL of openLong: what must not wait for an expiry happens within it.
const soon = time.Minute

// openLong opens a directory whose leases last for an hour.
func openLong(t *testing.T, dir string) *store.Store {
	t.Helper()
	c := configAt(dir, true)
	c.TTL = time.Hour
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// eventually repeats try, which the kernel's clean-up after a dead process may have to precede.
func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !try(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, soon)
		}
	}
}

func (p *process) told(t *testing.T) (token lease.Token, id string) {
	t.Helper()
	if _, err := fmt.Sscan(p.line(t), &token, &id); err != nil {
		t.Fatal(err)
	}
	return token, id
}

func wantCrashed(t *testing.T, s *store.Store, id string) {
	t.Helper()
	runs := runsOf(t, s, id)
	if len(runs) != 1 || runs[0].Outcome != run.Crashed || !runs[0].Inferred || runs[0].Command != "true" || runs[0].Ended.IsZero() {
		t.Errorf("history of the dead holder's run: %+v", runs)
	}
}

// Holds: promise 6.
func TestDeadHolderIsReclaimedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "hold", dir)
	token, id := p.told(t)
	if a := acquire(t, s, "k"); a.Status != lease.Held || a.Record.Token != token {
		t.Fatalf("while it lives: %v of token %d, want held of %d", a.Status, a.Record.Token, token)
	}
	if runs := runsOf(t, s, id); len(runs) != 1 || runs[0].Outcome != "" {
		t.Errorf("history while it lives: %+v", runs)
	}
	p.kill()
	var next lease.Answer
	eventually(t, "the next grant", func() bool { next = acquire(t, s, "k"); return next.Status == lease.OK })
	if next.Record.Token <= token {
		t.Errorf("token %d after %d", next.Record.Token, token)
	}
	wantCrashed(t, s, id)
}

// The same without a next grant: a reader of history concludes it.
func TestDeadRunIsFoundByReading(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "hold", dir)
	_, id := p.told(t)
	p.kill()
	_ = p.Wait()
	wantCrashed(t, s, id)
	wantCrashed(t, s, id)
	granted(t, s, "k")
	wantCrashed(t, s, id)
}

func TestLockFollowsTheWork(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "hand on", dir)
	token, id := p.told(t)
	var pid int
	var renewed string
	if _, err := fmt.Sscan(p.line(t), &pid, &renewed); err != nil || renewed != "ok" {
		t.Fatalf("Renew of a lease that was handed on: %s, %v", renewed, err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	p.kill()
	_ = p.Wait()
	for range 50 {
		if a := acquire(t, s, "k"); a.Status != lease.Held || a.Record.Token != token {
			t.Fatalf("its work lives, and the lease is %v", a.Status)
		}
	}
	if runs := runsOf(t, s, id); len(runs) != 1 || runs[0].Outcome != "" {
		t.Errorf("history while its work lives: %+v", runs)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next grant", func() bool { return acquire(t, s, "k").Status == lease.OK })
	wantCrashed(t, s, id)
}

func TestStoppedProcessKeepsItsLock(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"hold 0.3 s", "hold 3 s", "hold 30 s"} {
		if stoppedKeepsItsLock(t, role) {
			return
		}
	}
	t.Error("no process stopped before its lease lapsed")
}

// stoppedKeepsItsLock reports false if the process stopped too late: its lease had lapsed by then.
func stoppedKeepsItsLock(t *testing.T, role string) bool {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, role, dir)
	p.told(t)
	eventually(t, "its stop", func() bool { return p.state(t) == 'T' })
	first := acquire(t, s, "k")
	if first.Status == lease.OK {
		return false
	}
	for now := time.Now(); now.Before(first.Record.Expires.Add(300 * time.Millisecond)); now = time.Now() {
		time.Sleep(5 * time.Millisecond)
		if a := acquire(t, s, "k"); a.Status != lease.Held || !a.Record.Live(now) {
			t.Fatalf("while it is stopped: %v, %+v", a.Status, a.Record)
		}
	}
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its own expiry", func() bool { return acquire(t, s, "k").Status == lease.OK })
	_ = p.in.Close()
	if got := p.line(t); got != "gone" {
		t.Errorf("Renew by the process that was stopped: %s", got)
	}
	return true
}

// state is the process's letter in /proc.
func (p *process) state(t *testing.T) byte {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return b[bytes.LastIndexByte(b, ')')+2]
}

func TestExpiryReachesOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "shorten", dir)
	p.told(t)
	if got := p.line(t); got != "ok" {
		t.Fatal(got)
	}
	eventually(t, "the expiry", func() bool { return acquire(t, s, "k").Status == lease.OK })
}

func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openAt(t, dir)
	var all []*process
	for range 4 {
		all = append(all, play(t, "stress", dir))
	}
	for _, p := range all {
		p.line(t)
	}
}

func TestProbingNeverDenies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openAt(t, dir)
	for range 2 {
		play(t, "probe", dir).line(t)
	}
	for range 1000 {
		ref := granted(t, s, "k")
		if r, err := s.Leases.Release(context.Background(), []lease.Ref{ref}); err != nil || r.Answers[0].Status != lease.OK {
			t.Fatal(r, err)
		}
	}
}

func TestOneIdentityForAll(t *testing.T) {
	dir := t.TempDir() + "/a/b"
	var all []*process
	for range 6 {
		all = append(all, play(t, "open", dir))
	}
	id := all[0].line(t)
	for _, p := range all[1:] {
		if got := p.line(t); got != id {
			t.Errorf("installation ids %s and %s", id, got)
		}
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", st.Mode(), err)
	}
}

func breakLease(t *testing.T, s *store.Store, ref lease.Ref, b lease.Broken) lease.Answer {
	t.Helper()
	r, err := s.Leases.Break(context.Background(), ref, b)
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func TestBreakReachesAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "hold", dir)
	p.told(t)
	if a := breakLease(t, s, lease.Ref{Key: "k"}, lease.Broken{By: "me"}); a.Status != lease.OK || a.Record.Broken == nil {
		t.Fatalf("Break: %+v", a)
	}
	_ = p.in.Close()
	if got := p.line(t); got != "gone" {
		t.Errorf("Renew of the broken: %s", got)
	}
}

func TestBreakNowFreesAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := openLong(t, dir)
	p := play(t, "hold", dir)
	token, id := p.told(t)
	if a := breakLease(t, s, lease.Ref{Key: "k"}, lease.Broken{By: "me", Why: "stuck", Now: true}); a.Status != lease.OK || a.Record.Expires != (time.Time{}) {
		t.Fatalf("Break now: %+v", a)
	}
	next := granted(t, s, "k")
	if next.Token <= token {
		t.Errorf("token %d after %d", next.Token, token)
	}
	wantCrashed(t, s, id)
	p.kill()
	_ = p.Wait()
	if a := acquire(t, s, "k"); a.Status != lease.Held || a.Record.Token != next.Token {
		t.Errorf("the death of the broken holder freed the next one's lease: %+v", a)
	}
}

func TestProcessesShareTicks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openLong(t, dir)
	var all []*process
	for range 3 {
		all = append(all, play(t, "claim", dir))
	}
	total := 0
	for _, p := range all {
		var won int
		if _, err := fmt.Sscan(p.line(t), &won); err != nil {
			t.Fatal(err)
		}
		total += won
	}
	if total != contested {
		t.Errorf("%d ticks were won, of %d", total, contested)
	}
	orphans := func() int {
		rows, err := s.Ticks.Orphans(context.Background(), tick.Look{})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows.Ticks)
	}
	if n := orphans(); n != 0 {
		t.Errorf("%d orphans while their processes live", n)
	}
	for _, p := range all {
		p.kill()
	}
	eventually(t, "their ticks as orphans", func() bool { return orphans() == contested })
}

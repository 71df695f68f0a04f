//go:build linux

package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// call is an attempt of the run under a live lease.
func call(t *testing.T, id string, b *memory.Backend, out io.Writer) run.Call {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: b.Store().Leases})
	if err != nil {
		t.Fatal(err)
	}
	l, err := k.Acquire(t.Context(), lease.Want{Key: "app/j"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()); k.Close() })
	return run.Call{Run: run.Record{ID: id, Job: "app/j", Token: l.Token()}, Attempt: 1, Lease: l, StopGrace: soon, Output: out}
}

// reader tells when the first line has come.
type reader struct {
	got  bytes.Buffer
	line chan struct{}
}

func newReader() *reader { return &reader{line: make(chan struct{})} }

func (r *reader) Write(p []byte) (int, error) {
	if r.got.Len() == 0 {
		close(r.line)
	}
	return r.got.Write(p)
}

// attempt carries out t, and ends its context with cause once it has printed something.
func attempt(t *testing.T, target Target, id string, cause error, grace time.Duration) (run.Outcome, run.Attempt) {
	t.Helper()
	out := newReader()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() { <-out.line; cancel(cause) }()
	c := call(t, id, memory.New(memory.Options{}), out)
	c.StopGrace = grace
	all, outcome, _, recorded := run.Attempts(ctx, target, c, run.Limits{}, time.Now)
	recorded()
	return outcome, all[0]
}

// What a command says after it was told to stop is no success, however politely it ends.
func TestSuccessAfterAStopIsNone(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]run.Outcome{run.ErrTimedOut: run.TimedOut, run.ErrReplaced: run.Replaced, run.ErrShutdown: run.Canceled} {
		id := newRun(t)
		polite := Target{Args: shell(id, `trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`)}
		if got, a := attempt(t, polite, id, cause, soon); got != want || a.Status != 0 || a.Error == "" {
			t.Errorf("%v: %s, %+v; want %s", cause, got, a, want)
		}
	}
}

func TestALostLeaseStopsThePolite(t *testing.T) {
	t.Parallel()
	id, b, out := newRun(t), memory.New(memory.Options{}), newReader()
	c := call(t, id, b, out)
	go func() {
		<-out.line
		_, _ = b.Store().Leases.Break(context.Background(), lease.Ref{Key: "app/j"}, lease.Broken{By: "ann"})
	}()
	r := Target{Args: shell(id, `trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`)}.Attempt(t.Context(), c)
	if !r.Stopped {
		t.Errorf("%+v; want it to be stopped", r)
	}
	r.Recorded()
}

// stalled is a writer that nobody reads from, until it is let go.
type stalled struct{ begun, letGo chan struct{} }

func (s stalled) Write([]byte) (int, error) {
	close(s.begun)
	<-s.letGo
	return 0, errors.New("let go")
}

func TestAStalledWriterDoesNotHoldTheLease(t *testing.T) {
	t.Parallel()
	id := newRun(t)
	w := stalled{make(chan struct{}), make(chan struct{})}
	defer close(w.letGo)
	c := call(t, id, memory.New(memory.Options{}), w)
	done := make(chan run.Result, 1)
	go func() { done <- Target{Args: shell(id, "echo "+strings.Repeat("x", 100))}.Attempt(t.Context(), c) }()
	within(t, "the writer", soon, w.begun)
	r := within(t, "the attempt", soon, done) // the writer is let go only after this test
	if r.Outcome != run.Succeeded {
		t.Errorf("%+v", r)
	}
	r.Recorded()
}

// A run that left processes alone, outside of its lease, has that on its record.
// Holds: L7.
func TestWhatIsLeftAloneIsRecorded(t *testing.T) {
	t.Parallel()
	for leftovers, want := range map[Leftovers]bool{Leave: true, Kill: false} {
		id, out := newRun(t), newReader()
		all, outcome, reason, recorded := run.Attempts(t.Context(), Target{Args: shell(id, "sleep 300 & echo $!; exit 0"), Leftovers: leftovers},
			call(t, id, memory.New(memory.Options{}), out), run.Limits{}, time.Now)
		recorded()
		if pid, _ := strconv.Atoi(strings.TrimSpace(out.got.String())); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if outcome != run.Succeeded || reason != "" || strings.Contains(all[0].Error, "left alone") != want {
			t.Errorf("leftovers %v: %s, %q, %+v", leftovers, outcome, reason, all)
		}
	}
	id := newRun(t)
	all, _, _, recorded := run.Attempts(t.Context(), Target{Args: shell(id, "exit 0"), Leftovers: Leave}, call(t, id, memory.New(memory.Options{}), io.Discard), run.Limits{}, time.Now)
	recorded()
	if all[0].Error != "" {
		t.Errorf("nothing was left, and it says %q", all[0].Error)
	}
}

// A command can tell that its job has not succeeded before from that nobody knows.
func TestACommandIsToldOfThePreviousSuccess(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 4, 15, 0, 0, time.UTC)
	for _, c := range []struct {
		at      time.Time
		unknown bool
		want    []string
	}{
		{time.Time{}, false, nil},
		{time.Time{}, true, []string{"DIBS_PREVIOUS_SUCCESS_UNKNOWN=1"}},
		{at, false, []string{"DIBS_PREVIOUS_SUCCESS=2026-11-01T04:15:00Z"}},
	} {
		env := Target{Env: []string{"PATH=/bin"}}.environment(run.Call{PreviousSuccess: c.at, PreviousUnknown: c.unknown}, nil)
		got := slices.DeleteFunc(env, func(v string) bool { return !strings.HasPrefix(v, "DIBS_PREVIOUS_SUCCESS") })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What a command printed last reaches a writer that is slower than the command.
func TestTheLastLinesAreWaitedFor(t *testing.T) {
	t.Parallel()
	id := newRun(t)
	w := &slow{}
	r := Target{Args: shell(id, "echo first; echo last")}.Attempt(t.Context(), call(t, id, memory.New(memory.Options{}), w))
	if got := w.String(); got != "first\nlast\n" || r.Outcome != run.Succeeded {
		t.Errorf("%q, %+v", got, r)
	}
	r.Recorded()
}

// slow takes a while for each write.
type slow struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *slow) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The store's address may hold a password: a command is given neither it nor the way to an outer run's store
// (rule H3).
// Holds: H3.
func TestTheStoreIsNotInherited(t *testing.T) {
	t.Parallel()
	outer := []string{"PATH=/bin", "DIBS_STORE=redis://:secret@h/0", "DIBS_STORE_VIA=@dibs-x", "DIBS_STORE_FILE=/etc/dibs/store"}
	told := Target{Env: outer}.environment(run.Call{}, nil)
	for _, v := range told {
		if strings.HasPrefix(v, "DIBS_STORE=") || strings.HasPrefix(v, "DIBS_STORE_VIA=") {
			t.Errorf("it is told %s", v)
		}
	}
	if !slices.Contains(told, "DIBS_STORE_FILE=/etc/dibs/store") {
		t.Errorf("it is told %q", told)
	}
}

// A run within a run is told nothing of the outer one's tick.
func TestNothingOfAnOuterRunIsTold(t *testing.T) {
	t.Parallel()
	outer := []string{"PATH=/bin", "DIBS_TICK=2020-01-01T00:00:00Z", "DIBS_PREVIOUS_SUCCESS=x", "DIBS_PREVIOUS_SUCCESS_UNKNOWN=1"}
	told := Target{Env: outer, ExtraEnv: []string{"A=b"}}.environment(run.Call{}, nil)
	for _, v := range told {
		if strings.HasPrefix(v, "DIBS_TICK") || strings.HasPrefix(v, "DIBS_PREVIOUS") {
			t.Errorf("it is told %s", v)
		}
	}
	if !slices.Contains(told, "PATH=/bin") || !slices.Contains(told, "A=b") {
		t.Errorf("it is told %q", told)
	}
}

//go:build linux

package stress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

const clientEnv = "DIBS_STRESS_CLIENT"

// A storm is one round of the test: a store, its clients, and what is done to them.
type storm struct {
	*testing.T
	*board
	part
	processes   int              // among which the clients are divided
	said, log   *os.File         // what clients saw that may not be; what else they and their libraries write
	running     map[int]*process // by their first slot
	ended       chan *process
	from, limit time.Time
	harms       []string // what was done, for the summary
}

// A process is a running one of clients.
type process struct {
	slot   int // the first
	cmd    *exec.Cmd
	stdin  io.Closer
	killed bool
	err    error
}

// prepare makes the board, and the store new, so that nothing is held back.
func prepare(t *testing.T, address string, processes int, quota int64) *storm {
	t.Helper()
	dir := t.TempDir()
	s := &storm{T: t, processes: processes, running: map[int]*process{}, ended: make(chan *process, clients), limit: time.Now().Add(patience)}
	s.part = part{Board: filepath.Join(dir, "board"), Store: address + separator(address) + "namespace=stress&ttl=" + ttl.String(),
		Count: clients / processes, Quota: quota}
	var err error
	if s.board, err = openBoard(s.Board); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]**os.File{"said": &s.said, "log": &s.log} {
		if *f, err = os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := store.Parse(s.Store)
	if err != nil {
		t.Fatal(err)
	}
	c.Init = true
	opened, err := all.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

// begin starts the clients.
func (s *storm) begin() {
	s.Helper()
	for i := range s.processes {
		s.spawn(i * s.Count)
	}
	s.await("the first cycle", func() bool { return s.cycles() > 0 })
	s.from = time.Now()
}

// spawn starts the clients of a process, which go on where earlier ones were killed.
func (s *storm) spawn(slot int) {
	s.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	part := s.part
	part.First = slot
	told, err := json.Marshal(part)
	if err != nil {
		s.Fatal(err)
	}
	p := &process{slot: slot, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), clientEnv+"="+string(told), fmt.Sprintf("GOMAXPROCS=%d", min(s.Count, 2)))
	p.cmd.Stdout, p.cmd.Stderr = s.said, s.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		s.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.running[slot] = p
	go func() { p.err = p.cmd.Wait(); s.ended <- p }()
}

// await waits for a condition, and takes note of clients that end meanwhile.
func (s *storm) await(what string, reached func() bool) {
	s.Helper()
	for !reached() {
		select {
		case p := <-s.ended:
			delete(s.running, p.slot)
			if p.err != nil && !p.killed {
				s.Fatalf("the process of client %d failed: %v\n%s", p.slot, p.err, content(s.log))
			}
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(s.limit) {
			s.Fatalf("%s: not within %s: %s\n%s", what, patience, s.summary(), s.words())
		}
	}
}

// reach waits until a share of all the cycles is done.
func (s *storm) reach(share float64) {
	s.Helper()
	want := int64(share * float64(s.Quota*clients))
	s.await(fmt.Sprintf("%d cycles", want), func() bool { return s.cycles() >= want })
}

// finish waits for the last client and judges.
func (s *storm) finish() {
	s.Helper()
	s.await("the end", func() bool { return len(s.running) == 0 })
	if got, want := s.cycles(), s.Quota*clients; got != want {
		s.Errorf("%d cycles, want %d", got, want)
	}
	for i := range s.places {
		if v := visit(s.places[i].inside.Load()); v != 0 {
			s.Errorf("process %d is still at work under %q", v.pid(), keyOf(i))
		}
	}
	if s.overlaps.Load()+s.stale.Load()+s.overruns.Load() != 0 {
		s.Errorf("%s", s.words())
	}
	s.Log(s.summary())
}

func (s *storm) summary() string {
	n, took := s.cycles(), time.Since(s.from)
	return fmt.Sprintf("%d cycles in %.1f s (%.0f/s); %d overlaps, %d tokens that did not rise, %d overruns; "+
		"lost %d, unavailable %d, found held %d, held back %d, entries of the killed cleared %d; %s",
		n, took.Seconds(), float64(n)/took.Seconds(), s.overlaps.Load(), s.stale.Load(), s.overruns.Load(),
		s.lost.Load(), s.unavailable.Load(), s.held.Load(), s.heldBack.Load(), s.cleared.Load(), strings.Join(s.harms, "; "))
}

// words is what the clients said: each line tells of something that may not be.
func (s *storm) words() string { return content(s.said) }

func content(f *os.File) string {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// end lets no client outlive the test.
func (s *storm) end() {
	for _, p := range s.running {
		_ = p.cmd.Process.Kill()
	}
	for range s.running {
		<-s.ended
	}
	_ = errors.Join(s.said.Close(), s.log.Close())
}

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout is generous: a cold machine with two cores makes a database cluster slowly.
const startTimeout = 60 * time.Second

// A Server belongs to one test, which may do anything to it. Its methods end the test when they
// fail, so call them on the test's own goroutine.
type Server struct {
	URL string

	tech      technology
	args      []string
	dir, data string
	port      int
	as        account
	t         testing.TB

	mu  sync.Mutex
	cmd *process // nil while it does not run
}

// start makes a server from binaries and waits until it answers.
func start(tech technology, args []string) (s *Server, err error) {
	for _, name := range tech.binaries {
		if _, err := binary(name); err != nil {
			return nil, err
		}
	}
	s = &Server{tech: tech, args: args}
	if s.as, err = accountFor(tech.user); err != nil {
		return nil, err
	}
	if err = s.makeDir(); err != nil {
		return nil, err
	}
	if err = tech.prepare(s); err != nil {
		s.removeDir()
		return nil, err
	}
	// Somebody may take the free port before the server does.
	for range 3 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.launch(); err == nil {
			s.URL = tech.url(s.port)
			return s, nil
		}
	}
	s.removeDir()
	return nil, err
}

// makeDir makes a directory that the server's account can enter, and has it removed even when
// this process is killed.
func (s *Server) makeDir() (err error) {
	if s.dir, err = os.MkdirTemp(scratch(), "dibs-"+s.tech.name+"-"); err != nil {
		return err
	}
	s.data = filepath.Join(s.dir, "data")
	if err = errors.Join(os.Chmod(s.dir, 0o755), os.Mkdir(s.data, 0o700), s.as.own(s.dir), s.as.own(s.data)); err != nil {
		return err
	}
	return removeAfterUs(s.dir)
}

func (s *Server) removeDir() { _ = os.RemoveAll(s.dir) }

// launch starts the server on its port and data and waits until it answers.
func (s *Server) launch() error {
	path, err := binary(s.tech.binaries[0])
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, append(s.tech.command(s), s.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	p, err := spawn(cmd, s.as)
	if err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	if err = s.await(p); err != nil {
		p.killAll()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = p
	return nil
}

func (s *Server) await(p *process) error {
	deadline := time.Now().Add(startTimeout)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := s.tech.ping(ctx, s.tech.url(s.port))
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at start:\n%s", s.tech.binaries[0], s.logTail())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer after %s: %w\n%s", s.tech.binaries[0], startTimeout, err, s.logTail())
		}
	}
}

// Stop suspends every process of the server (SIGSTOP): connections stay, nothing is answered.
func (s *Server) Stop() { s.t.Helper(); s.must(s.process().stopAll()) }

// Cont lets a stopped server go on; it then carries out what its sockets have buffered.
func (s *Server) Cont() { s.t.Helper(); s.must(s.process().contAll()) }

// Kill ends every process of the server at once (SIGKILL), and returns when they are gone.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		s.cmd.killAll()
		s.cmd = nil
	}
}

// Restart kills the server if it runs, and starts it again on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	// A reader of /proc may keep a process's memory for a moment beyond its end; PostgreSQL does not start over it.
	err := s.launch()
	for end := time.Now().Add(startTimeout); err != nil && strings.Contains(err.Error(), "shared memory block") && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		err = s.launch()
	}
	s.must(err)
}

func (s *Server) close() { s.Kill(); s.removeDir() }

func (s *Server) process() *process {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatalf("testserver: %s does not run", s.tech.name)
	}
	return s.cmd
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("testserver: %s: %v", s.tech.name, err)
	}
}

// run carries out a preparing program as the server's account.
func (s *Server) run(name string, args ...string) error {
	path, err := binary(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	s.as.apply(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, tail(out))
	}
	return nil
}

func (s *Server) logTail() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log")) // for an error message: none is none
	return tail(b)
}

func tail(b []byte) string { return string(b[max(0, len(b)-2000):]) }

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

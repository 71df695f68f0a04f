//go:build linux

package nested

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/task"
)

const (
	// perUser bounds the concurrent connections of one user. The next one is told to try again.
	perUser = 8
	// talk is how long a command may take for its message, and how long the answer may take to be read.
	talk = 10 * time.Second
)

// Enqueue adds tasks, in steps as queue.Client does. It returns within a bounded time.
type Enqueue func(context.Context, []task.Spec) ([]task.Enqueued, error)

// A Server answers commands. It is safe for concurrent use.
type Server struct {
	name    string
	socket  *net.UnixListener
	enqueue Enqueue
	ctx     context.Context
	stop    context.CancelFunc
	serving sync.WaitGroup

	mu     sync.Mutex
	guests map[string]uint32 // token → the user that the command runs as
	busy   map[uint32]int    // connections by user
}

// Listen opens the socket. It has no name in a file system, where other programs could interfere with it.
func Listen(enqueue Enqueue) (*Server, error) {
	name := "@dibs-" + rand.Text()
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open a socket for commands: %w", err)
	}
	s := &Server{name: name, socket: socket, enqueue: enqueue, guests: map[string]uint32{}, busy: map[uint32]int{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.serving.Go(s.accept)
	return s, nil
}

// Admit returns the variable for the environment of a command that runs as the user uid, and leave, which ends the
// command's access. Both return at once.
func (s *Server) Admit(uid uint32) (variable string, leave func()) {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guests[token] = uid
	return Variable + "=" + s.name + "/" + token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.guests, token)
	}
}

// Close ends the serving, including requests in progress.
func (s *Server) Close() error {
	s.stop()
	err := s.socket.Close()
	s.serving.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.socket.AcceptUnix()
		switch {
		case err != nil && s.ctx.Err() != nil:
			return
		case err != nil: // too many files are open, say
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
			continue
		}
		uid, err := peer(c)
		if err == nil {
			err = s.enter(uid)
		}
		if err != nil {
			// It fits into the socket's buffer, so it waits for nobody. The time is for a process that is stopped for
			// a moment: without the answer, the other end sees a broken connection, and does not try again.
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_ = send(c, failed(err))
			c.Close()
			continue
		}
		s.serving.Go(func() {
			defer s.exit(uid)
			defer c.Close()
			defer context.AfterFunc(s.ctx, func() { c.Close() })()
			s.serve(c, uid)
		})
	}
}

// peer returns the user at the other end, as the kernel knows it.
func peer(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	controlled := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(controlled, err); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// enter admits a user that one of the running commands may run as. It refuses all others before reading anything of
// theirs.
func (s *Server) enter(uid uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := uid == 0
	for _, of := range s.guests {
		known = known || of == uid
	}
	switch {
	case !known:
		return errStranger
	case s.busy[uid] >= perUser:
		return errBusy
	}
	s.busy[uid]++
	return nil
}

func (s *Server) exit(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[uid]--; s.busy[uid] == 0 {
		delete(s.busy, uid)
	}
}

// errStranger does not say which of it is wrong.
var errStranger = errors.New("this command is not running now, or runs as another user than it was started as")

// admits reports whether a user has the token of a command that runs.
func (s *Server) admits(token string, uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, ok := s.guests[token]
	return ok && (uid == 0 || uid == of)
}

// serve answers one request.
func (s *Server) serve(c *net.UnixConn, uid uint32) {
	_ = c.SetDeadline(time.Now().Add(talk))
	specs, err := receiveSpecs(c, func(token string) bool { return s.admits(token, uid) })
	if err != nil {
		_ = send(c, failed(err))
		return
	}
	_ = c.SetDeadline(time.Time{})
	took, err := s.enqueue(s.ctx, specs)
	a := answer{Enqueued: took}
	if err != nil {
		a = failed(err)
	}
	_ = c.SetDeadline(time.Now().Add(talk))
	_ = send(c, a)
}

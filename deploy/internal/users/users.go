// Package users says which users this host has.
package users

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strings"
	"sync"
	"time"
)

// patience is how long the directory services are waited for; a test shortens it.
var patience = 5 * time.Second

// fresh is how long an answer counts: for all lines of a table, and not for the life of a program.
const fresh = time.Minute

// Known reports whether a user of this name exists, also in a directory service. A number is no name. The error says
// why nobody can tell. Answers are remembered for a minute; so is a failure, and then no directory service is asked
// for any name.
func Known(name string) (bool, error) {
	if strings.Trim(name, "0123456789") == "" {
		return false, nil
	}
	if _, err := user.Lookup(name); err == nil {
		return true, nil
	}
	return directory.known(name)
}

var directory = services{ask: getent}

// services are the host's directory services, of which a program without cgo reads only /etc/passwd.
type services struct {
	ask func(name string) (bool, error)

	mu       sync.Mutex
	since    time.Time
	answered map[string]bool
	failed   error
}

func (s *services) known(name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered == nil || time.Since(s.since) > fresh {
		s.since, s.answered, s.failed = time.Now(), map[string]bool{}, nil
	}
	if is, answered := s.answered[name]; answered {
		return is, nil
	}
	if s.failed != nil {
		return false, s.failed
	}
	is, err := s.ask(name)
	if s.failed = err; err == nil {
		s.answered[name] = is
	}
	return is, err
}

// notThere is the status of getent(1) for a name that no service has.
const notThere = 2

func getent(name string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("it has not answered for %s", patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, "getent", "passwd", "--", name)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, exec.ErrNotFound): // a host without directory services
		return false, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == notThere:
		return false, nil
	}
	return false, fmt.Errorf("getent passwd: %w", err)
}

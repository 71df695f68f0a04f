//go:build !linux

package command

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/lease"
)

var errPlatform = fmt.Errorf("guarding a command is not supported on %s, only on Linux: %w", runtime.GOOS, errors.ErrUnsupported)

// CgroupFor is "": control groups are Linux's.
func CgroupFor(lease.Key, string) string { return "" }

// CgroupNamed is "".
func CgroupNamed(string, lease.Key, string) string { return "" }

// UseScopes answers errors.ErrUnsupported.
func UseScopes(Scopes) error { return errPlatform }

// ReapOrphans does nothing.
func ReapOrphans() {}

// Find answers that nothing can be executed here.
func Find(string, string, []string) error { return errPlatform }

// Start answers a *StartError with errors.ErrUnsupported: the kill chain needs Linux.
func Start(s Spec) (*Process, error) {
	return nil, &StartError{Status: StatusFault, Name: fmt.Sprint(s.Args), Err: errPlatform}
}

// A Process is never had on this platform.
type Process struct{ noProcess struct{} }

// Pid is that of the command's main process.
func (p *Process) Pid() int { return 0 }

// Extend moves the deadline.
func (p *Process) Extend(Deadline) error { return errPlatform }

// Signal sends a signal to the command's process group.
func (p *Process) Signal(syscall.Signal) error { return errPlatform }

// Stop terminates, and kills after grace.
func (p *Process) Stop(time.Duration) {}

// Kill kills.
func (p *Process) Kill() {}

// Release frees the locks.
func (p *Process) Release() {}

// Exited delivers how the main process ended.
func (p *Process) Exited() <-chan Exit { return nil }

// Empty is closed when everything is gone.
func (p *Process) Empty() <-chan struct{} { return nil }

// Reaped is closed when the guardian has ended as well.
func (p *Process) Reaped() <-chan struct{} { return nil }

func (p *Process) remains() []int { return nil }

func stuck(lease.Key, string) []int { return nil }

func (p *Process) typed(Exit) os.Signal { return nil }

// Leftovers lists the living processes of the command.
func (p *Process) Leftovers() []int { return nil }

//go:build !linux

package nested

import (
	"context"
	"errors"

	"github.com/dibs-run/dibs/task"
)

// Enqueue adds tasks, in one step.
type Enqueue func(context.Context, []task.Spec) ([]task.Enqueued, error)

// A Server answers commands. It works on Linux only: elsewhere it could not tell which user a command runs as.
type Server struct{}

// Listen returns an error that wraps errors.ErrUnsupported.
func Listen(Enqueue) (*Server, error) { return nil, errors.ErrUnsupported }

// Admit returns Variable with the value Unreachable.
func (*Server) Admit(uint32) (string, func()) { return Variable + "=" + Unreachable, func() {} }

// Close does nothing.
func (*Server) Close() error { return nil }

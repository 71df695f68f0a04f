package backend

import (
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run/command"
)

// Leftovers converts a policy's value to that of a command's target.
func Leftovers(l job.Leftovers) command.Leftovers {
	switch l {
	case job.LeftoversKill:
		return command.Kill
	case job.LeftoversLeave:
		return command.Leave
	}
	return command.Wait
}

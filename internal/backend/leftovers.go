package backend

import (
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run/command"
)

// Leftovers is what a command's target is told of a policy.
func Leftovers(l job.Leftovers) command.Leftovers {
	switch l {
	case job.LeftoversKill:
		return command.Kill
	case job.LeftoversLeave:
		return command.Leave
	}
	return command.Wait
}

// Package command runs a command under a lease: when the lease is gone, the command and everything that it started
// are gone first (promise 3).
//
// A program that has jobs of its own calls GuardianMain first in main and passes a Target as the work of a job. A
// program without jobs calls Start with a Spec: the command's arguments, the lease's key and the deadline. The
// Process that it gets moves the deadline with each renewal of the lease, and says how the command ended.
//
// It works on Linux only; elsewhere Start answers errors.ErrUnsupported. A command that runs as this process's own
// user can kill or stop the processes that guard it: the guard is against accidents, not against such a command.
//
// # For maintainers
//
//	supervisor ── warden (own session, subreaper) ── guardian (subreaper) ── command (own group, and cgroup if possible)
//
// A command that has the terminal (Spec.Foreground) is in the supervisor's session, in the terminal's foreground. So
// is the warden, in a group of its own; the guardian leaves the session once it has started the command.
//
// The supervisor is the process that calls Start. Between it and the command stands a guardian, the same binary
// executed again. The guardian kills everything at once when the supervisor dies, and at the deadline when the
// supervisor is stopped or does not renew. If the guardian is killed, the kernel kills the command; the command's
// other processes come to the warden, which kills them. If the guardian is stopped, the supervisor kills by itself,
// and the kernel continues the guardian at its deadline, or kills it (see internal/guardian).
package command

import "github.com/dibs-run/dibs/internal/guardian"

// GuardianMain turns this process into a guardian, and does not return, if Start has started it as one. Otherwise
// it does nothing. Call it first in main: without it, Start would run the whole program again.
func GuardianMain() { guardian.Main() }

// Package command runs a command under a lease, such that when the lease is gone, the command and
// everything it started are gone first (promise 3).
//
//	supervisor ── warden (own session, subreaper) ── guardian (subreaper) ── command (own group, and cgroup if possible)
//
// The supervisor is the process that calls Start. It moves the deadline with every renewal of the
// lease. Between it and the command stands a guardian, the same binary executed again, which kills
// everything at once when the supervisor dies, and at the deadline when the supervisor is stopped
// or does not renew. When the guardian is killed, the kernel kills the command; the rest comes to the
// warden, which kills it. When the guardian is stopped, the supervisor kills by itself, and the kernel
// continues the guardian at its deadline, or kills it (see internal/guardian).
//
// A command that runs as this process's own user can kill or stop supervisor, guardian and warden: this
// guards against accidents, not against such a command.
//
// A program that uses the package calls GuardianMain first in main. It works on Linux only; elsewhere
// Start answers errors.ErrUnsupported.
package command

import "github.com/dibs-run/dibs/internal/guardian"

// GuardianMain turns this process into a guardian if it was started as one, and then never
// returns. Call it first in main: without it, Start would run the program again instead.
func GuardianMain() { guardian.Main() }

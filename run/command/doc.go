// Package command runs a command under a lease, such that when the lease is gone, the command and
// everything it started are gone first (promise 3).
//
//	supervisor ── guardian (own session, subreaper) ── command (own group, and cgroup if possible)
//
// The supervisor is the process that calls Start. It moves the deadline with every renewal of the
// lease. Between it and the command stands a guardian, the same binary executed again, which kills
// everything at once when the supervisor dies, and at the deadline when the supervisor is stopped
// or does not renew. When the guardian is killed, the kernel kills the command, and the supervisor
// the rest.
//
// A program that uses the package calls GuardianMain first in main. It works on Linux only; elsewhere
// Start answers errors.ErrUnsupported.
package command

import "github.com/dibs-run/dibs/internal/guardian"

// GuardianMain turns this process into a guardian if it was started as one, and then never
// returns. Call it first in main: without it, Start would run the program again instead.
func GuardianMain() { guardian.Main() }

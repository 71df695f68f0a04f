package command

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/lease"
)

// Environment variables that Start adds to the command's environment.
const (
	// EnvRunID holds the run's id, by which its processes are found where no cgroup knows them.
	EnvRunID = guardian.RunID
	// EnvRunParents holds the ids of the runs, separated by colons, within which this one was started.
	EnvRunParents = guardian.RunParents
	// EnvRunProofs holds what binds the run, and each run around it, to its lease: words separated by
	// colons. Only a process that carries the word of a lease's run is ever killed as its orphan.
	EnvRunProofs = "DIBS_RUN_PROOFS"
)

// bound names a run together with the lease it is under. A record is a claim by its writer: a writer of one key's
// record must not be able to name another key's work by its run id.
func bound(key lease.Key, runID string) string {
	sum := sha256.Sum256([]byte(key))
	return runID + "-" + hex.EncodeToString(sum[:16])
}

// StatusFault is the exit status of a fault of ours rather than of the command's.
const StatusFault = 125

// A Deadline bounds a command. Both are instants of the boot clock (clock.System.Boot, CLOCK_BOOTTIME): at Term all
// of its processes get SIGTERM, and at Kill SIGKILL. Zero: no deadline.
type Deadline struct{ Term, Kill time.Duration }

// Leftovers is the policy for processes that outlive the command's main process (rule L7).
type Leftovers = guardian.Leftovers

// The policies for leftovers.
const (
	// Wait until they end by themselves. Bound it with Stop or Kill.
	Wait = guardian.Wait
	// Kill them: SIGTERM, and SIGKILL after Spec.LeftoverGrace.
	Kill = guardian.Kill
	// Leave them alone: the guardian ends with the main process, locks are not inherited by the
	// command, and promise 3 is waived for what is left.
	Leave = guardian.Leave
)

// A Spec says what to run and how to guard it. Args and RunID are required.
type Spec struct {
	// Args are the command and its arguments. A name without a slash is looked up in the PATH of Env.
	Args []string
	// Dir is the working directory. Default: this process's own.
	Dir string
	// Env is the command's environment, to which EnvRunID is added. Default: this process's own.
	Env []string
	// Stdin, Stdout and Stderr are inherited as they are. Default: /dev/null. The command has no other descriptors,
	// except for Descriptors and the locks.
	Stdin, Stdout, Stderr *os.File
	// Descriptors are numbers above 2 of open descriptors of this process. The command inherits them under the same
	// numbers, unless it runs as a User. Its guardian and warden close theirs once it has them.
	Descriptors []int
	// Foreground gives the command the terminal, if Stdin is this process's controlling terminal, and this process in
	// its foreground: then the command is in this process's session, and its group in the foreground until its main
	// process ends. Ctrl-C reaches the command alone; Ctrl-Z stops nothing. This process ignores SIGTTOU meanwhile.
	// After a command that did not end by itself, the terminal gets the modes back that it had before. A User's
	// command does not get the terminal.
	Foreground bool
	// Locks are inherited by the guardian, which holds them until nothing of the command is left. The command
	// inherits them too, under the lowest numbers above 2 that Descriptors has not, unless Leftovers is Leave or the
	// command runs as a User: a process that has a descriptor of a lock can also free it.
	Locks []*os.File
	// HoldLocks makes the guardian keep the locks after Empty, until Process.Release, so that the outcome can be
	// recorded under them. The locks are also freed when this process dies, or after Deadline.Kill.
	HoldLocks bool
	// RunID identifies the run. It must be unique.
	RunID string
	// Key is the key of the run's lease. KillOrphaned finds the run's processes by Key and RunID.
	Key lease.Key
	// Name is the run's name for people, which its scope has. Default: the key; without a key, the command's name.
	Name string
	// Deadline is in force already before the command is executed. Default: none.
	Deadline Deadline
	// Renewed, if not nil, returns the current Deadline just before the command is executed, because a scope may
	// take 2 s to create.
	Renewed func() Deadline
	// User, if not nil, is the user that the command runs as; this process must be root then. The guardian keeps
	// this process's user, so that it can end the command whatever user that becomes.
	User *User
	// Umask, if not nil, is the command's umask, 0 to 0777.
	Umask *int
	// Nice is the command's nice value, -20 to 19. 0: this process's own.
	Nice int
	// Leftovers is the policy for processes that outlive the main process. Default Wait. With Kill they have
	// LeftoverGrace between SIGTERM and SIGKILL.
	Leftovers     Leftovers
	LeftoverGrace time.Duration

	// ungrouped starts the run without a control group, as DIBS_CGROUP=off does for all runs of a process.
	ungrouped bool
}

// An Exit says how the main process ended.
type Exit struct {
	// Status is the command's own, verbatim, or 128 + Signal; StatusFault if Err is set.
	Status int
	// Signal killed it; 0 if it exited.
	Signal syscall.Signal
	// ByDeadline is true if it ended after its Deadline, and after dibs had signalled it for that.
	ByDeadline bool
	// Err is set if its end was not seen: the guardian was killed, and the command with it.
	Err error
}

// A StartError says why the command was not started. Nothing is left of it.
type StartError struct {
	// Status is 127 if the command was not found, 126 if it cannot be executed, 125 for a
	// fault of ours.
	Status int
	Name   string // the command
	Err    error
}

func (e *StartError) Error() string { return fmt.Sprintf("run %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Scopes are control groups outside of this process's own, which a service manager creates. When the manager stops
// the service, it does not touch the runs in them. The methods are safe for concurrent use.
type Scopes interface {
	// Dir returns the path of the control group that the scope of a run will have; "" if it cannot be known. It is
	// always the same for the same run.
	Dir(name, runID string) string
	// Start creates the scope and moves processes of this user into it. It returns within 2 s, whatever the manager
	// does. After an error the processes may not be there, and may still be moved.
	Start(name, runID string, pids ...int) error
}

// Package guardian is the small process between a supervisor (dibs, or a program that uses run/command) and the
// command that runs under a lease. It exists so that promise 3 holds when the supervisor cannot keep it. If the
// supervisor is killed, the guardian sees the end of its connection and kills everything at once. If the supervisor
// is stopped, or cannot renew, the guardian knows the deadline and keeps it.
//
//	supervisor ── warden (own session, subreaper) ── guardian (subreaper) ── command (own group and cgroup)
//
// The guardian is the same binary, executed again under the name Name. It is a subreaper, so whatever the command
// starts stays below it, however it forks and detaches. It has no more children exactly when nothing of the command
// is left. Until then it holds the inherited locks, and so does the warden.
//
// The warden is again the same binary. Its only task begins when the guardian is killed: the guardian's children then
// become the warden's, which kills them. So no single process lets work go on by its death or stop: warden and
// supervisor see the guardian's, the guardian sees the warden's and the supervisor's. If all of them are stopped, the
// kernel continues the guardian when its deadline comes, and kills it if it does not act then (see Alarm).
//
// The package depends on next to nothing, so that Main can run before the rest of a large binary is initialised: see
// package guardian/early.
package guardian

// Name is the zeroth argument of a guardian, by which it is known, to itself and in /proc. The
// first is the run id; the second the run's cgroup, or "-"; the third what is inherited (see
// Numbers); then come the command's path and its arguments.
const Name = "dibs-guardian"

// Socket is the descriptor of the guardian's connection. Locks follow it, then what the command inherits.
const Socket = 3

// Warden is the zeroth argument of a warden. The others are as of a guardian, but for the number of locks
// before the command's path.
const Warden = "dibs-warden"

// usher is the zeroth argument of a process that puts itself into its terminal's foreground, and then becomes
// the command. The first is the descriptor to which it writes why it could not; the second the group
// that has the foreground; then come path and arguments.
const usher = "dibs-usher"

// IsGuard says whether the zeroth argument of a process is a guardian's or a warden's.
func IsGuard(arg0 string) bool { return arg0 == Name || arg0 == Warden }

// wardenComm is the warden's name in the kernel. It does not begin as dibs does, so that a signal to all processes of
// that name (pkill dibs) does not reach it too.
const wardenComm = "warden"

// Stuck is the name in the kernel of a guardian, or a warden, that has killed in vain: something hangs in the kernel.
const Stuck = "dibs-stuck"

// RunID is the environment variable in which a command, all that it starts, and its guardian
// carry the id of their run.
const RunID = "DIBS_RUN_ID"

// RunParents is the variable with the ids of the runs within which this run was started,
// separated by colons: its processes are theirs as well.
const RunParents = "DIBS_RUN_PARENTS"

var ready bool

// Ready says whether Main was called: a program that does not call it cannot have guardians, but
// would run itself instead.
func Ready() bool { return ready }

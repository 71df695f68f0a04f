// Package file keeps leases, ticks, history and tasks in a directory of this host: the embedded store, which needs no
// server.
//
//	st, err := file.Open(ctx, "/var/lib/dibs")
//
// Open makes the directory if it is missing. [OpenDB] and [QueueTx] let an application enqueue and complete tasks in
// its own transactions, in the same SQLite file. It excludes the processes of this host only, and waiters poll.
//
// The kernel's file locks decide which process holds a key. One SQLite database, opened only by processes that need
// it, has ticks, history and tasks.
//
//	DIR/host.json                   the installation id, which is the host's id (rule H1)
//	DIR/ns/NAME/namespace.json      max_ttl, and until when grants are held back (rule L9)
//	DIR/ns/NAME/leases/SHA256       one file per key: the lock, and the record of its hold
//	DIR/ns/NAME/leases/SHA256.req   what others ask of the holder: Replace, or break
//	DIR/ns/NAME/requests.lock       held while a process asks, breaks or changes settings
//	DIR/ns/NAME/journal.jsonl       ended runs without a tick, until a process reads history
//	DIR/ns/NAME/dibs.db             SQLite: ticks, jobs, runs, output, events, tasks; and an application's own tables
//
// # What is guaranteed
//
// One holder per key, exactly, among the processes of this host that use the directory, whatever
// clocks, loads and pauses do: a hold is a flock, and the kernel grants it to one open file. The
// open file is inherited by the command, so that the lock lasts as long as any of the work does,
// also when its supervisor is killed (Descriptor, Detach). It can only be read: records are written
// through another one. A command of another user does not inherit it, since it could free it; the record
// then says that the work is apart, and a free lock alone does not free the key. One of this user can free it too, on
// purpose: by accident no more than the flock goes, which alone frees nothing, and a renewal finds out. When the last
// process that has it dies, however it dies, the next grant needs no waiting: a record that is neither released nor
// lapsed, with a free lock, is a dead holder's.
//
// A flock can be tested only by taking it, and a probe must never acquire. So a process that gets the flock also locks
// one byte of the file for the same open file description. Others ask the kernel about that byte with F_OFD_GETLK,
// which takes nothing. A second such byte is locked for the microseconds in which a record is decided upon and
// written.
//
// A process lets go of a hold that it did not renew within its TTL, as a server would, and never
// revives it. The TTL is measured on CLOCK_BOOTTIME together with the boot id (rule L12): a stepped
// wall clock changes no expiry, and a record of another boot has expired. The store's time is
// this host's wall clock; instants of records follow it when it is stepped.
//
// Tokens are max(previous + 1, wall clock in µs). Requests that reach the store late are refused
// as everywhere; there are no buffers in which they could wait.
//
// Ticks, jobs and runs with a tick are durable when a call returns: SQLite in WAL mode with
// synchronous=FULL, one write transaction per call. A claim lives as long as the lock of its lease.
//
// A run without a tick costs no database. Its start is written into its lock file; its end is a
// line in the journal, and then the record is freed. The first reader of history imports the
// journal, any number of times with the same result. If the hold of such a run dies, the next grant of the key, or the
// next reader of history, concludes that it crashed. If the run still reports, its own word replaces that.
//
// # An application's transactions
//
// OpenDB gives an application a pool on dibs.db, for tables of its own beside dibs's, and QueueTx is the queue
// as seen from one of its transactions (promise 22): tasks are enqueued and completed with the application's
// own rows, or not at all. Each call is in a savepoint, which is rolled back if it fails. A completion is fenced
// inside the transaction as it is outside; from then to the commit nobody else can write, and so nobody can
// have been given the task. The commit itself wakes watching workers.
//
// SQLite has one writer per file. A key that another transaction has taken is therefore never Undecided: every other
// writer waits until that transaction ends, for 5 s or until its context ends, and then fails as unavailable. This
// holds for everything of dibs that writes: fetches, completions, claims, events.
// Leases are files, and go on; queues and tasks can be looked at.
//
// The tables must be in this file. Another one can be attached, but in WAL mode SQLite's commit is atomic for
// each file and not for all of them: a process that is killed, or a loss of power, in the middle of it can
// leave one of the two without its half.
//
// SQLite's locks are POSIX locks, which a process loses with the first descriptor of the file that it closes.
// The library knows of its own descriptors, but not of another library's: hence the pool from here, over the
// same driver. Other processes may use any SQLite.
//
// # Who may write there
//
// The directory's owner, root or this user, may share it with a group. Its members can plant anything under
// any name, so everything is opened through package internal/beneath, and SQLite opens its files through a
// VFS (vfs.go).
//
// # What is not
//
//   - It is this host's alone. Containers exclude each other only if they share the directory
//     and the kernel. File systems that several machines can mount are refused.
//   - A process stopped with SIGSTOP, or frozen, keeps its locks beyond the TTL, until it goes on or dies.
//     Nothing overlaps; others wait. Answers then show the hold as expiring in a moment, again and again.
//     Stopped in the middle of a database transaction (some 50 ms at most, unless it is an application's), it
//     blocks other writers, who get lease.ErrUnavailable after 5 s, with the reason; locks go on working.
//   - A hold is reclaimed only when its lock is free, or is this process's own: no proof of the
//     death of its work counts for more than a lock that somebody still has (rule L6).
//   - A daemon that a command left behind holds the command's lock (rule L7 says what to do about it).
//   - break --now replaces the lock file: from then on the old lock excludes nobody, and the
//     old holder learns it at its next heartbeat.
//   - Lock files and the journal are not synced to the disk. They survive the death of every process; a
//     loss of power can take the last half minute of them, when no holder lives any more either. A
//     token can then step back only if the wall clock steps back as well (rule L10).
//   - If the directory is removed under running work, holders notice at their next heartbeat. A new one in
//     its place grants nothing for max_ttl, unless dibs init says that it is new, or the kernel's list of
//     locks shows that no live hold is of a directory that had this path. Paths are compared as they were
//     given, and without symbolic links. Holds of processes in other mount namespaces (containers, some
//     systemd services) count as holds of this path, because their paths may mean something else. Not covered
//     is a directory that was reached by another name, through a bind mount in the same namespace. If max_ttl
//     is shorter than the TTL of work whose supervisor is stopped just then, the work may go on beside a new
//     one until its own TTL is over.
//   - Waiters are not notified.
//   - Lock files are small and are never removed, one per key ever used; the exception is
//     keys of single use (lease.OnceKey).
//
// # Cost
//
// Acquire, Start and Close of a run without a tick take some 45 system calls, about 0.1 ms of
// processor time in all, and no wait for the disk. A claim takes one write transaction, and so
// one sync. Each live hold needs two open files.
package file

// Package postgres keeps leases, ticks, history and tasks in PostgreSQL 13 or newer, in the schema dibs of the
// database that the address names.
//
//	st, err := postgres.Open(ctx, "postgres://dibs@db/app?namespace=shop")
//
// Open makes the schema and the namespace if they are missing. [New] takes a pool of yours instead. [QueueTx] and
// [QueueSQL] enqueue and complete tasks in your own transactions. The namespace is a column, so several environments
// can share a database.
//
// # What it promises
//
//   - One operation is one pipelined batch of statements in one implicit transaction: the server needs nothing more
//     from the client to commit it, one fsync commits the whole batch, and a client that dies halfway leaves nothing
//     (rule L1). A grant is acknowledged after its commit.
//   - The server's clock_timestamp() decides, read after the row's lock was obtained. A statement that waited for a
//     lock is judged by the time at which it got it.
//   - A refusal because a lease is held writes nothing and costs no fsync.
//   - Rows are locked in the order of their keys, and tables in the order leases, jobs, ticks, runs. A deadlock or
//     serialization error with another program's transaction is reported as unavailable: nothing was done.
//   - Identity (rule L9) is the server's system identifier and timeline, compared inside the batch that grants. A
//     promoted standby, a point-in-time recovery and a dump restored elsewhere differ, and hold grants back for
//     max_ttl, since they may lack the last leases.
//
// Recovery after a holder's crash takes at most its TTL.
//
// # Tasks
//
//   - Each operation of more than one statement is a function of the schema, so that a call is one implicit
//     transaction here as well. Only Maintain is several of them.
//   - Tasks that wait or run are in one table, tasks that ended in another: ended tasks slow nothing down, however
//     long they are kept. A task that holds its unique key for a window stays among the living until the window is
//     over.
//   - A unique key is a unique index on the rows that hold one. It ends with the row, and has no time of its own.
//   - Limits are rows, with the number of tasks that run. A task that waits for a limit is blocked, and a fetch never
//     sees it. Only as many are nominated, and seen, as there are free slots.
//   - A fetch goes by bands: a queue, a kind and a rank. It looks at the head of each band that it may give from.
//     Each band remembers a floor below which it has no task, so that dead entries of its index are not walked over
//     again; migration 8 says how that is safe.
//   - A step changes a bounded number of rows, and leaves the rest to the next.
//   - A fetch shares a lock of its worker, which the worker's end takes alone, and one of the namespace, which a pause
//     takes alone. Rows are locked in the order rates, limits by key, tasks by id. To insert a unique key may mean to wait for a
//     transaction that has touched the task which holds it, so limits are locked before any task is touched. Tasks
//     that are merely looked for are passed over if another transaction has them (SKIP LOCKED).
//   - Enqueue, Start and Finish are on disk when they are acknowledged, and so is a Fetch that gave slots of a limit.
//     A Fetch that gave none is not (synchronous_commit off for that transaction): if a crash of the server loses its
//     claim, another worker runs the task, and the first one's token is refused.
//   - No plan of the hot path depends on how common a state is: a test reads the plans.
//   - NOTIFY makes commits wait for each other. So only idle workers are notified: a fetch that finds too little arms
//     its queue; the next enqueue notifies after its commit, and disarms it.
//
// A caller's transaction must be READ COMMITTED (promise 22). It waits for a unique key that another transaction is
// about to take, for two seconds in all; then the answer is Undecided, and the transaction goes on. A task that it
// met as a duplicate does not start before its end. It holds no lock on a limit: it leaves a note of freed slots, and
// the next fetch finds out which task comes first.
//
// Of leases, a grant is on disk when it is acknowledged. A release is not (synchronous_commit off for its
// transaction), unless a run's outcome is written with it: if a crash of the server loses it, the hold lapses within
// its TTL. One lease alone has statements of its own, of one part each; what they do not grant or free is asked for
// once more, in the statement that knows all cases.
//
// # Where it is weaker
//
//   - A forward step of the server's clock ends leases early.
//   - A file-system snapshot that is put back keeps system identifier and timeline: run nothing on it for max_ttl.
//   - With asynchronous replication a failover can lose acknowledged claims of ticks; leases are covered by the
//     hold-back. Name the standby in synchronous_standby_names to lose none.
//   - Several hosts in an address are tried in turn until a primary is found. Two primaries at once (a failover
//     without fencing) are two stores.
//   - A transaction elsewhere in the database that stays open for hours keeps vacuum from the rows of renewals and of
//     worked tasks, and slows both down.
//
// # Connections
//
// Open's own connections have the settings of sql/settings.sql, whatever the role, the database or the server says:
// synchronous_commit on if it is off or local, READ COMMITTED, UTF-8, plans that go by the keys, timeouts and TCP
// keepalives that keep a dead client's locks short, and application_name=dibs. With a pool that is passed to New,
// each operation sets what matters for its own transaction and leaves the connection as it was. Any mode of pgx works.
//
// Open finds out whether a pooler, such as pgbouncer in transaction mode, is in between. Then it prepares no
// statements, makes its settings for each transaction, and waiters poll, since LISTEN needs a session. A pool that is
// passed to New needs default_query_exec_mode=exec there.
//
// # Session locks
//
// With ?lock=session a key is granted only to a process whose one pinned session also has the advisory lock
// LockID(namespace, key). Programs which take that lock themselves exclude dibs and are excluded by it (rule L11). It
// does not shorten recovery: the row must have lapsed or been released as well. If the session is lost, its holds are
// refused at their next renewal. If another program has the lock, an acquire takes about a quarter of a second
// longer, since a lock that is just being freed looks the same. Session locks need a connection straight to the
// server; behind a pooler Open refuses.
//
// # Rights
//
// The first Open, or `dibs init`, makes the schema; it needs the right to create one in the database, or an empty
// schema dibs of its own. Other roles need
//
//	GRANT USAGE ON SCHEMA dibs TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dibs TO app;
//	GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA dibs TO app;
package postgres

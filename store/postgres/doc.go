// Package postgres keeps leases, ticks, history and tasks in PostgreSQL 13 or newer, in the schema dibs of
// the database that the address names. The namespace is a column, so environments can share a
// database.
//
// # What it promises
//
//   - One operation is one pipelined batch of statements in one implicit transaction: the server
//     needs nothing more from the client to commit it, one fsync commits the whole batch, and a
//     client that dies halfway leaves nothing (rule L1). A grant is acknowledged after its commit.
//   - The server's clock_timestamp() decides, read after the row's lock was obtained. What waited
//     for a lock is judged by the time at which it got it.
//   - A refusal because a lease is held writes nothing and costs no fsync.
//   - Rows are locked in the order of their keys, and tables in the order leases, jobs, ticks, runs. A
//     deadlock or serialization error with somebody else's transaction is reported as unavailable:
//     nothing was done.
//   - Identity (rule L9) is the server's system identifier and timeline, compared inside the batch
//     that grants. A promoted standby, a point-in-time recovery and a dump restored elsewhere
//     differ, and hold grants back for max_ttl, since they may lack the last leases.
//
// Recovery after a holder's crash takes at most its TTL.
//
// # Tasks
//
//   - What is atomic and more than one statement is a function of the schema, so that a call is one
//     implicit transaction here as well. Only Tend is a row of them.
//   - Tasks that wait or run are in one table, those that ended in another: what ended slows nothing
//     down that lives, however long it is kept. A task that holds its unique key for a window stays among the living
//     until that is over.
//   - A unique key is a unique index on the rows that hold one. It ends with the row, and has no time
//     of its own.
//   - Limits are rows, with the number of tasks that run. A task that waits for one is blocked, which the
//     fetch never sees, but for as many as there are free slots: those are nominated.
//   - A fetch goes by lines: a queue, a kind and a rank. It looks at the head of each that it may give from.
//     Each remembers a floor below which nothing stands, so that dead entries of its index are not walked over
//     again; the migration says how that is safe.
//   - A step changes no more rows than it is bound to, and leaves the rest to the next.
//   - Locks are taken in the order rates, limits by key, tasks by id. To insert a unique key can be to wait for
//     who has touched the task that holds it, so limits come before whatever touches tasks. Tasks that are merely
//     looked for are passed over where another has them (SKIP LOCKED).
//   - Enqueue, Start and Finish are on disk when they are acknowledged. So is a Fetch that gave slots of a
//     limit. One that gave none is not (synchronous_commit off for that transaction): a claim that a crash of the
//     server loses lets another worker run the task, and the first one's token is refused.
//   - No plan of the hot path depends on how common a state is: a test reads the plans.
//   - NOTIFY lets commits wait for each other. So only idle workers are told of tasks: a fetch that finds
//     too little arms its queue, the next enqueue tells of it, after its commit, and disarms it.
//
// QueueTx and QueueSQL are the queue as seen from a transaction of the caller's (promise 22). It must be READ
// COMMITTED. A unique key that another transaction is about to take is waited for, for two seconds in all; then
// the answer is Undecided, and the transaction goes on. A task that a transaction met as a duplicate does not
// start before its end. No lock on a limit outlives a call there: the next fetch takes a note of what was
// freed, and finds out who comes first.
//
// # Where it is weaker
//
//   - A forward step of the server's clock ends leases early.
//   - A file-system snapshot that is put back keeps system identifier and timeline: run nothing on
//     it for max_ttl.
//   - With asynchronous replication a failover can lose acknowledged claims of ticks; leases are
//     covered by the hold-back. Name the standby in synchronous_standby_names to lose none.
//   - Several hosts in an address are tried in turn until a primary is found; two primaries at once
//     (a failover without fencing) are two stores.
//   - A transaction elsewhere in the database that stays open for hours keeps vacuum from the rows of
//     renewals and of tasks that were worked, and slows both down.
//
// # Connections
//
// Open's own connections have the settings of sql/settings.sql: synchronous_commit on where it is
// off or local, READ COMMITTED, plans that go by the keys, timeouts and TCP keepalives that keep a dead
// client's locks short, and application_name=dibs. With a pool that is passed to New, each operation
// sets what matters for its own transaction and leaves the connection as it was. Any mode of pgx
// works. Open finds out whether a pooler stands between, such as pgbouncer in transaction mode: then it prepares no
// statements, makes its settings for each transaction, and nobody is told of anything, since LISTEN needs a session:
// waiters poll. A pool that is passed to New needs default_query_exec_mode=exec there.
//
// # Session locks
//
// With ?lock=session a key is granted only to a process whose one pinned session also has the
// advisory lock LockID(namespace, key), so that programs which take that lock themselves exclude
// dibs and are excluded by it (rule L11). It does not shorten recovery: the row must have lapsed
// or been released as well. When the session is lost, for whatever reason, its holds are refused at their
// next renewal. A stranger's lock makes an acquire take about a quarter of a second longer, since
// a lock that is just being freed looks the same. Session locks need a connection straight to the
// server; behind a pooler they would belong to anybody, and Open refuses.
//
// # Rights
//
// The first Open, or `dibs init`, makes the schema; it needs the right to create one in the
// database, or an empty schema dibs of its own. Other roles need
//
//	GRANT USAGE ON SCHEMA dibs TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dibs TO app;
//	GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA dibs TO app;
package postgres

// Package postgres keeps leases, ticks and history in PostgreSQL 13 or newer, in the schema dibs of
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
//     renewals, and slows them down.
//
// # Connections
//
// Open's own connections have the settings of sql/settings.sql: synchronous_commit on where it is
// off or local, READ COMMITTED, plans that go by the keys, timeouts and TCP keepalives that keep a dead
// client's locks short, and application_name=dibs. With a pool that is passed to New, each operation
// sets what matters for its own transaction and leaves the connection as it was. Any mode of pgx
// works, and so do poolers; behind pgbouncer in transaction mode use New with
// default_query_exec_mode=exec, and expect no notification, since LISTEN needs a session: waiters
// poll.
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
package postgres

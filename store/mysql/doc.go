// Package mysql keeps leases, ticks, history and tasks on MySQL 8 or MariaDB 10.5 and later, in tables whose names
// begin with dibs_.
//
//	st, err := mysql.Open(ctx, "mysql://dibs@db/app?namespace=shop")
//
// Open makes the tables and the namespace if they are missing. [New] takes a pool of yours instead. [BeginTx] and
// [QueueTx] enqueue and complete tasks in your own transactions. The statements keep to what MySQL and MariaDB both
// document. The tests run on MariaDB, or on the server that DIBS_TEST_MARIADB names.
//
// # How
//
// An operation on a batch is ONE packet: a text of several statements that the server receives whole before it
// begins, COMMIT included. The packet opens a READ COMMITTED transaction, locks its rows in a fixed order (jobs,
// leases, ticks, runs, each by primary key), and only then reads the server's clock. Conditional statements then
// decide everything at that instant, not_after and expiry included.
//
// So a request that sat in a stopped server's socket while its client died is late when the server wakes, and changes
// nothing (rule L1). A request that waited for a row does not overlook the wait, as it would with NOW(), which is the
// statement's start. An answer is believed once the server has acknowledged COMMIT. On any error the connection is
// closed, and the server rolls back.
//
// Two kinds of packets have no transaction around them. A packet that only reads is one statement, and its clock is
// NOW(): it waits for no lock, and sees what was committed by then or later. A packet that changes one lease by its
// primary key, as a heartbeat does, is one UPDATE, which reads the clock for that row once it has it, and a SELECT
// that says whether it found the row. That UPDATE locks the one row alone at any level of isolation. An idle server
// sends packets of these kinds only, except when it takes the turn to sweep. An acquire makes rows only if some are
// missing: the first one ever of a key is two packets, of which the first grants nothing.
//
// Packets of this store do not deadlock with each other, because of the order of their locks. If the server reports a
// deadlock all the same, the packet is sent once more: the transaction is then known to be rolled back, and the
// second packet checks not_after again.
//
// # Guarantees
//
// Crash recovery takes at most the TTL, by the server's clock. Tokens are max(previous + 1, now in µs). Claims,
// outcomes and the release of a lease are one transaction. Acknowledged commits survive a power failure if
// innodb_flush_log_at_trx_commit is 1 and, with a binary log, sync_binlog is 1; otherwise Properties.Durable is
// false.
//
// The server's identity (server_uuid; on MariaDB host name, port, data directory and server id) is compared within
// each grant. A different server, as after a failover, grants nothing for max_ttl (rule L9), because its replica of
// the leases may lack the last commits.
//
// # Tasks
//
// The queue needs SKIP LOCKED, so MySQL 8 or MariaDB 10.6; on an older MariaDB Store.Queue is nil. It needs no stored
// routines and no privileges beyond those of the leases.
//
// Go decides what a step does to tasks. One packet then carries it out: it locks what the decision relies on, rates
// before tasks, each by primary key, and compares versions. If a version has changed, or the worker's lease is no
// longer live, or the decision is older than 3 s, the packet ends with ROLLBACK instead of COMMIT, and the step is
// decided anew; after 20 s of that it fails with ErrUnavailable. Tasks that another transaction has locked are passed
// over (SKIP LOCKED). Fetches of tasks without limits and rates do not conflict at all: the packet takes the first of
// many candidates that nobody else takes.
//
// Many steps contend for limits. A step that has to do with limits first locks their rows, all at once and by primary
// key, then reads its tasks and the heads of the lines, and is decided once. A second step waits for some ms, or, if
// it is a fetch, takes other tasks (SKIP LOCKED). These locks last for two or three round trips. They and those of a
// large batch are the only locks that outlast a packet. A step has one connection at a time, and all steps together
// less than half of the pool, so that no renewal waits for a limit. If the client dies, the server rolls back when it
// sees the connection end; if the client is stopped or cut off, after 5 s of silence (wait_timeout, of this session
// and for this time). A step that waits for a limit for more than 2 s begins again.
//
// Each task in line for a limit is available or blocked. A step that cannot lock the limit, such as one in a caller's
// transaction, leaves a row in dibs_task_wakes, and the next fetch or Maintain does what is due.
//
// A batch (up to 2,000 tasks, 16 MiB of arguments) is one step. A batch that does not fit into a packet of 1 MiB is
// sent in several, on one connection that has its transaction open: the last of them commits. The numbers in
// queue_step.go bound everything else that a step does.
//
// A caller's transaction never locks a limit, a lease or a counter of others, and waits 2 s at most.
//
// # Weaknesses
//
// Properties.Weaker lists them. All processes must address one writing server. Behind a balancer over several nodes
// (Galera, Group Replication in multi-primary mode) the identity changes with each request, and nothing is granted. A
// server with --sysdate-is-now is refused.
//
// # Session locks
//
// With ?lock=session a grant also needs GET_LOCK of the key's name, on one connection that the process keeps for it:
// for interoperation with programs that use the named lock (rule L11). It recovers no faster. In the default
// namespace a key's lock is named like the key, in another one namespace:key, as long as both are of [a-z0-9_.-] and
// the name has at most 64 characters. Any other key's lock is named "dibs:" and the hexadecimal SHA-224 of namespace,
// a zero byte and key. When the connection is lost, by KILL, wait_timeout or a network failure, so are its named
// locks, and the next heartbeat finds every lease of the process gone.
package mysql

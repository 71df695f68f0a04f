// Package mysql is the store on MySQL 8 and MariaDB 10.5 or later. Its statements keep to what both
// document; its tests run on MariaDB (or on the server that DIBS_TEST_MARIADB names).
//
// # How
//
// An operation on a batch is ONE packet: a text of several statements that the server receives
// whole before it begins, COMMIT included. The packet opens a READ COMMITTED transaction, locks
// its rows in a fixed order (jobs, leases, ticks, runs, each by primary key), and only then reads
// the server's clock; everything it decides, not_after and expiry included, is decided at that
// instant, by conditional statements. So a request that sat in a stopped server's socket while its
// client died is late when the server wakes, and changes nothing (rule L1); and a request that
// waited for a row does not overlook the wait, as it would with NOW(), which is the statement's
// start. An answer is believed once the server has acknowledged COMMIT. Whatever goes wrong, the
// connection is closed, and the server rolls back.
//
// Two kinds of packets have no transaction around them. What only reads is one statement, and its
// clock is NOW(): it waits for no lock, and sees what was committed by then or later. What changes
// one lease by its primary key, as a heartbeat does, is one UPDATE, which reads the clock for that
// row once it has it, and a SELECT that says whether it found the row. That UPDATE locks the one
// row alone at any level of isolation. The packets of servers with nothing to do are of these
// kinds, but for who takes the turn to sweep. An acquire makes rows only where some are missing:
// the first one ever of a key is two packets, of which the first grants nothing.
//
// Deadlocks do not occur between packets of this store, by the order of the locks. If the server
// reports one all the same, the packet is sent once more: the transaction is then known to be
// rolled back, and the second one checks not_after again.
//
// # Guarantees
//
// Crash recovery takes at most the TTL, by the server's clock. Tokens are max(previous + 1, now in
// µs). Claims, outcomes and the release of a lease are one transaction. Acknowledged commits
// survive a power failure if innodb_flush_log_at_trx_commit is 1 and, with a binary log,
// sync_binlog is 1; otherwise Properties.Durable is false.
//
// The server's identity (server_uuid; on MariaDB host name, port, data directory and server id) is
// compared within each grant. A different server, as after a failover, grants nothing for max_ttl
// (rule L9), because its replica of the leases may lack the last commits.
//
// # Tasks
//
// The queue needs SKIP LOCKED, so MySQL 8 or MariaDB 10.6; on an older MariaDB Store.Queue is nil. It
// needs no stored routines and no privileges beyond those of the leases.
//
// What a step does to tasks is decided in Go. One packet then carries it out: it locks what the
// decision rests on, rates before tasks, each by primary key, and compares versions. If one has
// changed, or the worker's lease is not live by now, or the decision is older than 3 s, the packet
// ends with ROLLBACK instead of COMMIT, and the step is decided anew; after 20 s of that it is
// ErrUnavailable. Tasks that somebody else has locked are passed over (SKIP LOCKED). Fetching tasks
// without limits and rates does not conflict at all: the packet takes the first of many candidates
// that nobody else takes.
//
// Limits are what many contend for. A step that has to do with some locks their rows first, all at once and by
// primary key, reads its tasks and the heads of the lines then, and is decided once: who comes second waits for
// some ms, or, in a fetch, takes others (SKIP LOCKED). These locks last for two or three round trips, and are
// the only ones that outlast a packet, but for those of a large batch. A step has one connection at a time, and
// all of them together less than half of the pool, so that no renewal waits for a limit. If the client dies,
// the server rolls back when it sees the connection end; if it is stopped or cut off, after 5 s of silence
// (wait_timeout, of this session and for this time). Whoever waits for a limit for more than 2 s begins again.
//
// Each task in line for a limit is available or blocked. Whoever cannot lock the limit, as a caller's
// transaction must not, leaves a row in dibs_task_wakes, and the next fetch or Tend does what is due.
//
// A batch (up to 2,000 tasks, 16 MiB of arguments) is one step. One that does not fit into a packet of 1 MiB is
// sent in several, on one connection that has its transaction open: the last of them commits. What else a step
// does is bounded as well, by the numbers in queue_step.go.
//
// BeginTx and QueueTx give the queue as part of a transaction of the caller's. It never locks a limit, a lease or
// a counter of others, and waits 2 s at most.
//
// # Weaknesses
//
// Properties.Weaker lists them. All processes must address one writing server: behind a balancer
// over several nodes (Galera, Group Replication in multi-primary mode) the identity changes with
// each request, and nothing is granted. A server with --sysdate-is-now is refused.
//
// # Session locks
//
// With ?lock=session a grant also needs GET_LOCK of the key's name, on one connection that the
// process keeps for it: for interoperation with programs that use the named lock (rule L11). It
// recovers no faster. In the default namespace a key's lock is named like the key, in another one
// namespace:key, as long as both are of [a-z0-9_.-] and the name has at most 64 characters; any
// other key's lock is named "dibs:" and the hexadecimal SHA-224 of namespace, a zero byte and key.
// When the connection is lost, by KILL, wait_timeout or a network failure, so are its named locks,
// and the next heartbeat finds every lease of the process gone.
package mysql

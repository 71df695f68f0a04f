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

// Package redis keeps leases, ticks, history and queues on a Redis server, 6.2 or later, or a server that speaks its
// language.
//
//	st, err := redis.Open(ctx, "redis://host:6379/0?namespace=shop")
//
// [New] takes a client of yours, also one of a cluster or with sentinels. All of a namespace is under one hash tag,
// and each operation is one Lua script for a whole batch: it is atomic, and nothing comes in between.
//
// # What is promised
//
// On one server that keeps its data (appendonly yes, maxmemory-policy noeviction) and whose clock does not step, a
// key has at most one live holder and its tokens only grow. A crashed holder's key is free after its TTL. A lease has
// no Redis TTL: expiry is a field, judged by the server's clock inside the script that grants, renews, claims or
// starts, when that script runs. A request that lay in a stopped server's buffers while its sender died is refused by
// its not_after (rule L1).
//
// # After a restart or a failover
//
// Redis replicates, and by default syncs its log, after it has acknowledged. So a server that was restarted, promoted
// or wiped may not know leases that are held. Each script that grants compares the server's run_id with the one that
// the namespace was last used on. If it differs, or the namespace's record is gone, nothing is granted until the
// longest TTL has passed (rule L9). Holders of leases that survived go on renewing; the others are refused, and stop
// their work. Not covered:
//
//   - A primary that is cut off from its replicas, and goes on granting while one of them is promoted: both sides
//     grant once the hold-back is over. Set min-replicas-to-write.
//   - Claims, history and tasks of the moment before the failover, which may be forgotten.
//   - A server that is restored to older data without being restarted, as by hand.
//
// # Queues
//
// A task is a row, which changes, and its spec, which does not. Rows are packed, and a thousand neighbours share a
// hash, so that a batch needs a command or two for all. The tasks of a sub-queue (a kind in a queue) that may be
// fetched are one sorted set. A fetch merges the sets of the sub-queues that it may take from, so that no other
// sub-queue costs it anything. Tasks that wait for their limit are in a set apart, except as many as there are free
// slots: see lua/queue/limit.lua. The head of each Lua file lists the names of its keys.
//
// Redis has no transaction that a caller's could join. Write an outbox: insert what is to be enqueued into a table,
// in the transaction of the work's own data. A process of yours reads it, enqueues each row with the row's id as its
// unique key and a window, and deletes what was answered.
//
// # The clock
//
// The server's clock decides. A step forward frees live leases early, by the size of the step; a step backward
// prolongs those of dead holders by as much. Let it be slewed, never stepped. Tokens grow through both: they count on
// from the last one while the clock lags behind it.
//
// # Permissions
//
// docs/reference/stores.md has the ACL SETUSER for a user of its own. The script that opens a namespace checks the
// rights of its user, and names those that are missing; servers before 7.0 cannot be asked. FCALL and FUNCTION LOAD
// are optional: without them leases cost the server twice as much. CONFIG GET is optional too: without it the store
// says that durability and eviction are unknown.
//
// # For maintainers: functions
//
// A server with functions (7.0 and later, Valkey) keeps acquire and release ready in a library named dibs_ and a
// digest of its text. The first client to miss the library loads it. A function costs less than a script, whose
// functions the server makes anew at each call, and it remembers the process's run_id, for which a script asks INFO.
// The library knows the plain cases; the scripts know all of them. A server without functions, or a user without the
// right to them, gets scripts. Versions of dibs whose libraries differ share a server. FUNCTION DELETE removes one
// that nobody uses any more; at worst it is loaded again.
package redis

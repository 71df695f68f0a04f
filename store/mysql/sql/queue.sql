-- Fragments of the queue's packets: see queue.go for how they are put together.
--
-- A step reads rows, decides in Go (store/internal/lifecycle), and then sends one packet that locks what it read,
-- checks that no version has changed (ver, @dibs_ok), writes, and commits or rolls back as a whole (decide). A step
-- whose rows changed begins again. A step that has to do with limits locks them before it reads. Locks are taken in
-- the order limits, rates, tasks, each in the order of the primary key.
--
-- FORCE INDEX stands in nearly every statement: the tables grow from nothing to a million rows, and the optimizer
-- would scan a small one, and lock what it scans.

-- name: at
-- Reads at an instant that is given: all packets of a step read at the same one.
SET @dibs_now = ?;

-- name: task-columns
-- What is read of a task; the fragments below say which.
SELECT t.id, t.ver, t.subqueue, t.queue, t.kind, t.state, t.class, t.ordinal, t.priority, t.run_at, t.enqueued, t.expires, t.started, t.ended,
t.attempts, t.granted, t.crashes, t.snoozes, t.begun, t.displaced, t.token, t.worker, t.completed,
t.ukey, t.win, t.limited, t.args, t.options, t.reason, t.stop FROM dibs_tasks t

-- name: tasks-by-id
-- By id.
FORCE INDEX (PRIMARY) WHERE t.ns = ? AND t.id IN (?);

-- name: sizes
-- How many bytes of arguments tasks have.
SELECT id, LENGTH(args) FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE ns = ? AND id IN (?);

-- name: tasks-by-key
-- Those that hold unique keys (Q1).
FORCE INDEX (one) WHERE t.ns = ? AND t.ukey IN (?);

-- name: tasks-due
-- Those of a sub-queue that are due, the earliest first.
FORCE INDEX (due) WHERE t.ns = ? AND t.subqueue = ? AND t.due_at > 0 AND t.due_at <= @dibs_now ORDER BY t.due_at, t.id LIMIT ?;

-- name: tasks-lapsed
-- Waiting ones whose expires_at has passed (Q6).
FORCE INDEX (lapse) WHERE t.ns = ? AND t.lapses > 0 AND t.lapses <= @dibs_now ORDER BY t.lapses LIMIT ?;

-- name: tasks-windows
-- Those whose window is over (Q1).
FORCE INDEX (win) WHERE t.ns = ? AND t.win > 0 AND t.win <= @dibs_now ORDER BY t.win LIMIT ?;

-- name: tasks-old
-- Those of a final state whose retention is over. One whose window is open stays.
FORCE INDEX (old) WHERE t.ns = ? AND t.done = ? AND t.ended < @dibs_now - ? AND t.win = 0 ORDER BY t.ended LIMIT ?;

-- name: tasks-held
-- Those that a worker has.
FORCE INDEX (held) WHERE t.ns = ? AND t.holder = ? ORDER BY t.id LIMIT ?;

-- name: tasks-slots
-- Those that have slots of a limit.
FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state = 3 ORDER BY t.id;

-- name: tasks-displacing
-- Those that a displacing task supersedes: older ones that wait for the same limit and displace too.
FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state IN (1, 2) AND t.id < ? AND (t.displaced = 1 OR t.line = 0) LIMIT ?;

-- name: unsettled-keys
-- Keys that some transaction has or is taking, ended or not. READ UNCOMMITTED shows the ones that are under way. It
-- is a hint that saves waits; the unique index decides.
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
START TRANSACTION;
SELECT ukey FROM dibs_tasks FORCE INDEX (one) WHERE ns = ? AND ukey IN (?);
COMMIT AND NO CHAIN NO RELEASE;

-- name: live-worker
-- Whether a worker's lease is live.
SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now;

-- name: whats-up
-- What a fetch has to know first, in one round trip: whether the worker's lease is live; whether slots of limits are
-- held back (1), or the namespace does not know this server yet (2: see queue_held.go); whether there is any pause,
-- rate or wake.
SELECT (SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now),
  COALESCE((SELECT IF(identity <> @dibs_identity OR hold_until > @dibs_now + max_ttl, 2, hold_until > @dibs_now) FROM dibs_meta WHERE ns = ?), 2),
  EXISTS (SELECT 1 FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now)) OR EXISTS (SELECT 1 FROM dibs_task_rates WHERE ns = ?) OR EXISTS (SELECT 1 FROM dibs_task_wakes WHERE ns = ?);

-- name: subqueues
-- The next sub-queues of the namespace. One may be there several times, with different salts.
SELECT DISTINCT queue, kind FROM dibs_task_subqueues FORCE INDEX (PRIMARY) WHERE ns = ? AND (queue > ? OR queue = ? AND kind > ?) ORDER BY queue, kind LIMIT ?;

-- name: add-subqueue
-- Adds a sub-queue. The salt is the process's own, so that nobody waits for another transaction that adds the same
-- one.
INSERT INTO dibs_task_subqueues (ns, queue, kind, salt) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE salt = dibs_task_subqueues.salt;

-- name: due
-- The ids of a sub-queue's due tasks.
SELECT id, limited IS NOT NULL FROM dibs_tasks FORCE INDEX (due)
WHERE ns = ? AND subqueue = ? AND due_at > 0 AND due_at <= @dibs_now ORDER BY due_at, id LIMIT ?;

-- name: next-due
-- The next due instant of a sub-queue, behind so many tasks.
SELECT COALESCE((SELECT due_at FROM dibs_tasks FORCE INDEX (due) WHERE ns = ? AND subqueue = ? AND due_at > 0 ORDER BY due_at, id LIMIT 1 OFFSET ?), 0);

-- name: first-due
-- The next due instant of a sub-queue.
SELECT COALESCE(MIN(due_at), 0) FROM dibs_tasks FORCE INDEX (due) WHERE ns = ? AND subqueue = ? AND due_at > 0;

-- name: is-due
-- A row if a task of a sub-queue is due.
SELECT 1 FROM dibs_tasks FORCE INDEX (due) WHERE ns = ? AND subqueue = ? AND due_at > 0 AND due_at <= @dibs_now LIMIT 1;

-- name: ready
-- The first available tasks of a sub-queue and class, in order: the index begins with all that is compared.
SELECT id, queue, kind, ordinal, class, limited, expires FROM dibs_tasks FORCE INDEX (ready)
WHERE ns = ? AND subqueue = ? AND state = 1 AND class = ? ORDER BY ordinal, id LIMIT ?;

-- name: took
-- How much time the packet has taken so far, by the server.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) - @dibs_now;

-- name: make-due
-- Makes those of the named tasks available that are due and that nobody holds, without waiting (SKIP LOCKED). UPDATE
-- has no SKIP LOCKED: so the ids that were locked are collected, and a statement with them is prepared.
SELECT GROUP_CONCAT(id) INTO @dibs_ids FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) AND due_at > 0 AND due_at <= @dibs_now AND limited IS NULL FOR UPDATE SKIP LOCKED;
SET @dibs_sql = CONCAT('UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = 1, due_at = 0, ver = ver + 1 WHERE id IN (', COALESCE(@dibs_ids, '0'), ')');
PREPARE dibs_make_due FROM @dibs_sql;
EXECUTE dibs_make_due;

-- name: hold
-- The step goes on in packets to come. If none comes for some seconds, the server closes the connection and rolls
-- back: a client that was stopped keeps nobody waiting for longer.
SET @dibs_idle = @@wait_timeout;
SET SESSION wait_timeout = 5;

-- name: held
-- The step goes on no longer.
SET SESSION wait_timeout = @dibs_idle;

-- name: give-up
-- Ends the step without effect, and puts the session back.
ROLLBACK AND NO CHAIN NO RELEASE;
SET SESSION innodb_lock_wait_timeout = @dibs_was, SESSION group_concat_max_len = @dibs_concat, SESSION wait_timeout = @dibs_idle;

-- name: lock-limits
-- Locks limits in the order of the primary key. A step that waits here holds no lock that another one of these waits
-- for.
SELECT COUNT(token) INTO @dibs_locked FROM dibs_task_limits FORCE INDEX (PRIMARY) WHERE ns = ? AND hash IN (?) FOR UPDATE;
SELECT @dibs_locked;

-- name: every-limit
-- Takes the place of is-locked if all limits that there were are locked. The client counts them: if there is one more,
-- it was made since then.
1

-- name: is-locked
-- Whether a limit is among those that lock-free-limits locked. It looks through a list for each limit.
COALESCE(FIND_IN_SET(HEX(?), @dibs_limits), 0) > 0

-- name: limit-of-row
l.hash

-- name: limit-of-task
limited

-- name: lock-free-limits
-- Locks those limits that nobody has.
SELECT GROUP_CONCAT(HEX(hash)) INTO @dibs_limits FROM dibs_task_limits FORCE INDEX (PRIMARY) WHERE ns = ? AND hash IN (?) FOR UPDATE SKIP LOCKED;

-- name: locked-limits
-- The limits that are locked: each with how many run, the first task that is blocked, and the last sub-queue in which
-- one is. It is a statement of its own, so it sees what was committed before the locks were had. line = 1: the task
-- waits in line, and is not decided by a fetch that sees it.
SELECT l.hash, l.limit_key, l.slots, l.declared, l.token, ?,
  (SELECT COUNT(*) FROM dibs_tasks t FORCE INDEX (line) WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 3),
  (SELECT CONCAT_WS(' ', t.id, t.ver, t.subqueue, t.ordinal, t.expires) FROM dibs_tasks t FORCE INDEX (line)
   WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 2 AND t.line = 1
   ORDER BY t.subqueue, t.ordinal, t.id LIMIT 1),
  (SELECT t.subqueue FROM dibs_tasks t FORCE INDEX (line)
   WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 2 AND t.line = 1 ORDER BY t.subqueue DESC LIMIT 1)
FROM dibs_task_limits l FORCE INDEX (PRIMARY) WHERE l.ns = ? AND l.hash IN (?);

-- name: slots
-- A limit, for Admin.
SELECT limit_key, slots FROM dibs_task_limits WHERE ns = ? AND hash = ?;

-- name: open-in-line
-- The tasks at locked limits that are available and stand in line, so many at most (Q5).
SELECT limited, id, ver, subqueue, ordinal FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited IN (?) AND state = 1 AND line = 1 AND ?
ORDER BY limited, subqueue, ordinal, id LIMIT ?;

-- name: blocked-in-line
-- The first blocked tasks of a sub-queue at a limit, and whether each has expired.
SELECT id, ver, subqueue, ordinal, expires > 0 AND expires <= @dibs_now FROM dibs_tasks FORCE INDEX (line)
WHERE ns = ? AND limited = ? AND state = 2 AND line = 1 AND subqueue = ? ORDER BY ordinal, id LIMIT ?;

-- name: from-subqueue
-- Prepares next-subqueue for a limit: behind which sub-queue it begins. A # is a parameter.
SET @dibs_ns = ?, @dibs_hash = ?, @dibs_subqueue = ?, @dibs_sql = REPLACE('SELECT MIN(subqueue) INTO @dibs_subqueue FROM dibs_tasks FORCE INDEX (line) WHERE ns = # AND limited = # AND state = 2 AND line = 1 AND subqueue > #', '#', CHAR(63 USING utf8mb4));
PREPARE dibs_next FROM @dibs_sql;

-- name: next-subqueue
-- The next sub-queue in which tasks are blocked at a limit. One probe of the index finds it, however long the line
-- is: the server does so for MIN beside constants, as parameters are, and not in a recursive query or a subquery.
EXECUTE dibs_next USING @dibs_ns, @dibs_hash, @dibs_subqueue;
SELECT @dibs_subqueue;

-- name: ensure-limits
-- Makes rows of limits: limit-row follows, once or more, and unless-there.
INSERT INTO dibs_task_limits (ns, hash, limit_key, slots, token) VALUES

-- name: limit-row
-- The first token is larger than the instant at which the limit was made: so token also tells when a limit was used
-- last.
(?, ?, ?, ?, @dibs_now)

-- name: unless-there
-- The assignment changes nothing.
ON DUPLICATE KEY UPDATE slots = dibs_task_limits.slots;

-- name: limits-after
-- The next limits, and whether each could be forgotten as far as its row tells: no operator's word stands, and it was
-- not used for so long.
SELECT hash, declared = 0 AND token < @dibs_now - ? FROM dibs_task_limits FORCE INDEX (PRIMARY) WHERE ns = ? AND hash > ? ORDER BY hash LIMIT ?;

-- name: unused-limits
-- Those of the locked limits that can be forgotten: no task has one that has not ended. The states of a limit's tasks
-- stand in order in the index, so one entry of it tells.
SELECT l.hash FROM dibs_task_limits l FORCE INDEX (PRIMARY) WHERE l.ns = ? AND l.hash IN (?) AND FIND_IN_SET(HEX(l.hash), @dibs_limits)
AND l.declared = 0 AND l.token < @dibs_now - ?
AND COALESCE((SELECT t.state FROM dibs_tasks t FORCE INDEX (line) WHERE t.ns = l.ns AND t.limited = l.hash ORDER BY t.state LIMIT 1), 9) >= 5;

-- name: forget-limits
-- Forgets limits.
DELETE FROM dibs_task_limits WHERE ns = ? AND hash IN (?) AND @dibs_ok = 1;

-- name: blocked
-- The last of so many blocked tasks that come after one: where a promotion in steps goes on.
SELECT subqueue, ordinal, id FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited = ? AND state = 2 AND line = 1
AND (subqueue > ? OR subqueue = ? AND (ordinal > ? OR ordinal = ? AND id > ?)) ORDER BY subqueue, ordinal, id LIMIT 1 OFFSET ?;

-- name: blocked-rest
-- How many blocked tasks come after one, up to a bound.
SELECT COUNT(*) FROM (SELECT id FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited = ? AND state = 2 AND line = 1
AND (subqueue > ? OR subqueue = ? AND (ordinal > ? OR ordinal = ? AND id > ?)) LIMIT ?) r;

-- name: wakes
-- The oldest notes on limits up to one, 20 at most, each with the id of the youngest note.
SELECT id, hash, limit_key, slots, (SELECT MAX(id) FROM dibs_task_wakes FORCE INDEX (PRIMARY) WHERE ns = ?) FROM dibs_task_wakes FORCE INDEX (PRIMARY)
WHERE ns = ? AND id <= ? ORDER BY id LIMIT 20;

-- name: add-wake
-- Notes that a limit must be looked at: by a transaction of a caller's, which must not lock the limit.
INSERT INTO dibs_task_wakes (ns, hash, limit_key, slots) VALUES (?, ?, ?, ?);

-- name: drop-wakes
-- Deletes notes that were acted on.
DELETE w FROM dibs_task_wakes w FORCE INDEX (PRIMARY) WHERE ns = ? AND id IN (?);

-- name: fresh
-- Begins a deciding packet: @dibs_ok becomes 0 as soon as anything is not as it was read. A packet waits for a lock
-- for 2 s at most.
SET @dibs_ok = 1, @dibs_ids = NULL, @dibs_claimed = NULL, @dibs_was = @@innodb_lock_wait_timeout, @dibs_concat = @@group_concat_max_len;
SET SESSION innodb_lock_wait_timeout = 2, SESSION group_concat_max_len = 1048576;

-- name: hold-rates
-- Locks rates, and checks their versions.
SELECT COUNT(IF(CONCAT(ver, '/', kind) IN (?), 1, NULL)) INTO @dibs_n FROM dibs_task_rates FORCE INDEX (PRIMARY)
WHERE ns = ? AND kind IN (?) FOR UPDATE;
SET @dibs_ok = @dibs_ok AND @dibs_n = ?;

-- name: hold-tasks
-- Locks tasks, and checks their versions. Nobody is waited for (SKIP LOCKED): a transaction of a caller's may have a
-- task for long.
SELECT COUNT(IF(CONCAT(ver, '/', id) IN (?), 1, NULL)), GROUP_CONCAT(id) INTO @dibs_n, @dibs_ids FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) FOR UPDATE SKIP LOCKED;
SET @dibs_ok = @dibs_ok AND @dibs_n = ?;

-- name: if-current
-- What was decided at an instant is not carried out much later (L1).
SET @dibs_ok = @dibs_ok AND @dibs_now <= ?;

-- name: if-live
-- The worker's lease must be live (promise 19).
SET @dibs_alive = (SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now);
SET @dibs_ok = @dibs_ok AND @dibs_alive = 1;

-- name: if-not-held
-- Slots must not be held back (L9).
SET @dibs_ok = @dibs_ok AND EXISTS (SELECT 1 FROM dibs_meta WHERE ns = ? AND identity = ? AND hold_until <= @dibs_now);

-- name: no-pause
-- Shared by fetches until their end. A pause waits for the fetches that are under way, so that nothing is given once
-- the pause is acknowledged.
SELECT COUNT(created) INTO @dibs_locked FROM dibs_meta WHERE ns = ? LOCK IN SHARE MODE;

-- name: before-pause
-- Waits for those fetches.
SELECT COUNT(created) INTO @dibs_locked FROM dibs_meta WHERE ns = ? FOR UPDATE;

-- name: if-unpaused
-- No pause holds but those that the step has read, by when they began.
SET @dibs_ok = @dibs_ok AND (SELECT COUNT(*) FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now) AND since NOT IN (?)) = 0;

-- name: if-unbounded
-- None of these kinds has a rate that the step has not read.
SET @dibs_ok = @dibs_ok AND (SELECT COUNT(*) FROM dibs_task_rates WHERE ns = ? AND kind IN (?) AND kind NOT IN (?)) = 0;

-- name: if-one
-- The statement before must have changed one row.
SET @dibs_ok = @dibs_ok AND ROW_COUNT() = 1;

-- name: claim-tasks
-- Gives tasks without a limit: the first of the named ones that nobody has (SKIP LOCKED: two fetches share them
-- without waiting), and that are still in these sub-queues. No more are locked than are taken, so the order is that
-- of the index. The token is larger than the last one and than the clock.
SELECT GROUP_CONCAT(t.id) INTO @dibs_claimed FROM (SELECT id FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) AND subqueue IN (?) AND state = 1 AND class = 0 AND limited IS NULL AND (expires = 0 OR expires > @dibs_now) ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED) t;

-- name: claim-what-fits
-- Leaves the first of them whose arguments fit together; one of them in any case, if it must be. Says whether some did
-- not fit.
SET @dibs_room = ?, @dibs_one = ?;
SELECT GROUP_CONCAT(IF(u.total <= @dibs_room OR @dibs_one AND u.total = u.size, u.id, NULL)), COALESCE(MAX(u.total > @dibs_room AND NOT (@dibs_one AND u.total = u.size)), 0) INTO @dibs_claimed, @dibs_cut FROM
(SELECT t.id, LENGTH(t.args) AS size, SUM(LENGTH(t.args)) OVER (ORDER BY FIELD(t.id, ?)) AS total FROM dibs_tasks t FORCE INDEX (PRIMARY) WHERE t.id IN (?) AND FIND_IN_SET(t.id, @dibs_claimed) > 0) u;
SELECT @dibs_cut;

-- name: claim-them
-- Gives these.
SET @dibs_claimed = IF(@dibs_ok = 1, COALESCE(@dibs_claimed, '0'), '0'), @dibs_worker = ?;
SET @dibs_sql = CONCAT('UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = 3, lapses = 0, due_at = 0, started = @dibs_now, begun = 0, worker = @dibs_worker, holder = @dibs_worker, token = GREATEST(token + 1, @dibs_now), stop = '''', ver = ver + 1 WHERE id IN (', @dibs_claimed, ')');
PREPARE dibs_claim FROM @dibs_sql;
EXECUTE dibs_claim;

-- name: claimed-prefix
-- Reads the tasks that were just given.
SET @dibs_sql = CONCAT(?, ' FORCE INDEX (PRIMARY) WHERE t.id IN (', @dibs_claimed, ')');
PREPARE dibs_claim FROM @dibs_sql;
EXECUTE dibs_claim;

-- name: flip-tasks
-- Gives tasks another state, such as available or blocked.
UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = ?, ver = ver + 1 WHERE id IN (?) AND @dibs_ok = 1;

-- name: take-key
-- Takes a unique key. IGNORE: if another task has it, nothing is changed, and the packet goes on to its end (see
-- if-one).
UPDATE IGNORE dibs_tasks FORCE INDEX (PRIMARY) SET ukey = ? WHERE id = ? AND @dibs_ok = 1;

-- name: update-spec
-- Writes a task's new arguments (Q3).
UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET options = ?, args = ? WHERE id = ? AND @dibs_ok = 1;

-- name: wake-of
-- Leaves a note for the limit of a task that is to be set aside.
INSERT INTO dibs_task_wakes (ns, hash, limit_key, slots) SELECT l.ns, l.hash, l.limit_key, 0
FROM dibs_tasks t FORCE INDEX (PRIMARY) JOIN dibs_task_limits l ON l.ns = t.ns AND l.hash = t.limited WHERE t.id = ? AND t.ns = ? AND t.state < 5;

-- name: set-aside
-- Ends a task that cannot be understood, if it waits or runs: whatever else its row says.
UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = ?, done = ?, ended = @dibs_now, due_at = 0, lapses = 0, holder = 0, ukey = NULL, win = 0,
  limited = NULL, line = 0, stop = '', reason = ?, ver = ver + 1
WHERE ns = ? AND id = ? AND state < 5;

-- name: insert-tasks
-- Inserts whole rows: plain-row or the values follow.
INSERT INTO dibs_tasks (ns, subqueue, queue, kind, state, class, ordinal, priority, run_at, due_at,
enqueued, expires, lapses, started, ended, done, attempts, granted, crashes, snoozes, begun, displaced,
token, worker, holder, completed, ukey, win, limited, line, reason, stop, options, args) VALUES

-- name: same
-- A row whose unique key is held changes nothing: then if-one stops the packet.
ON DUPLICATE KEY UPDATE ver = dibs_tasks.ver;

-- name: plain-row
-- A new task without key and limit: scheduled or available by the clock of the packet.
(?, ?, ?, ?, IF(IF(? = 0, @dibs_now, ?) + ? > @dibs_now, 0, 1), 0, ?, ?, IF(? = 0, @dibs_now, ?) + ?, IF(IF(? = 0, @dibs_now, ?) + ? > @dibs_now, IF(? = 0, @dibs_now, ?) + ?, 0),
@dibs_now, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, '', '', ?, ?)

-- name: inserted
-- The clock, and which ids were given: LAST_INSERT_ID() is the first of the statement, the others follow by the
-- increment.
SELECT @dibs_now, LAST_INSERT_ID(), @@auto_increment_increment;

-- name: delete-tasks
-- Deletes tasks.
DELETE t FROM dibs_tasks t FORCE INDEX (PRIMARY) WHERE id IN (?) AND @dibs_ok = 1;

-- name: delete-attempts
-- Deletes their attempts.
DELETE a FROM dibs_task_attempts a FORCE INDEX (PRIMARY) WHERE task IN (?);

-- name: add-attempt
-- Adds an attempt to a task's history.
INSERT INTO dibs_task_attempts (task, attempt) VALUES (?, ?);

-- name: trim-attempts
-- Deletes the attempt after the first ones, if there are more than a task keeps.
DELETE FROM dibs_task_attempts WHERE task = ?
  AND i = (SELECT i FROM (SELECT i FROM dibs_task_attempts WHERE task = ? ORDER BY i LIMIT ?, 1) x)
  AND EXISTS (SELECT 1 FROM (SELECT i FROM dibs_task_attempts WHERE task = ? ORDER BY i LIMIT ?, 1) y);

-- name: attempts
-- A task's attempts, the oldest first.
SELECT attempt FROM dibs_task_attempts WHERE task = ? ORDER BY i;

-- name: raise-tokens
-- The largest token that was given under limits: later ones are larger.
UPDATE dibs_task_limits SET token = ? WHERE ns = ? AND hash IN (?) AND @dibs_ok = 1;

-- name: set-slots
-- Sets a limit's maximum, and what its tasks declare while an operator's word stands (Q5).
UPDATE dibs_task_limits SET slots = ?, declared = ? WHERE ns = ? AND hash = ? AND @dibs_ok = 1;

-- name: set-word
-- Sets who said an operator's word, and when.
UPDATE dibs_task_limits SET said_by = ?, said = ? WHERE ns = ? AND hash = ? AND @dibs_ok = 1;

-- name: limits-said
-- The operators' words that stand, a thousand at most.
SELECT hash, limit_key, slots, declared, said_by, said FROM dibs_task_limits FORCE INDEX (said)
WHERE ns = ? AND declared > 0 ORDER BY limit_key, hash LIMIT 1000;

-- name: use-rate
-- Writes what a fetch used of a rate.
UPDATE dibs_task_rates SET full = ?, taken = ?, ver = ver + 1 WHERE ns = ? AND kind = ?;

-- name: decide
-- Commits all of it if @dibs_ok is still 1, else nothing. COMMIT may be prepared and ROLLBACK may not, everywhere;
-- after a COMMIT the ROLLBACK does nothing. Then the session is put back, and the answer read.
SET @dibs_sql = IF(@dibs_ok = 1, 'COMMIT AND NO CHAIN NO RELEASE', 'DO 0');
PREPARE dibs_end FROM @dibs_sql;
EXECUTE dibs_end;
ROLLBACK AND NO CHAIN NO RELEASE;
SET SESSION innodb_lock_wait_timeout = @dibs_was, SESSION group_concat_max_len = @dibs_concat;
SELECT @dibs_ok, @dibs_now, COALESCE(@dibs_ids, '');

-- name: rates
-- The rates.
SELECT kind, ver, each_, burst, full, per, most, taken FROM dibs_task_rates WHERE ns = ?;

-- name: rates-of
-- The rates of kinds.
SELECT kind, ver, each_, burst, full, per, most, taken FROM dibs_task_rates FORCE INDEX (PRIMARY) WHERE ns = ? AND kind IN (?);

-- name: set-rate
-- Declares a rate. What the kind has used of it stays used.
INSERT INTO dibs_task_rates (ns, kind, each_, burst, per, most) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE each_ = VALUES(each_), burst = VALUES(burst), per = VALUES(per), most = VALUES(most), ver = ver + 1;

-- name: drop-rates
-- Drops rates.
DELETE FROM dibs_task_rates WHERE ns = ? AND kind IN (?);

-- name: pauses
-- The pauses that hold now.
SELECT queue, kind, since, until, by_, why FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now) ORDER BY queue, kind;

-- name: lock-pause
-- Locks one pause.
SELECT COUNT(since) INTO @dibs_locked FROM dibs_task_pauses FORCE INDEX (PRIMARY) WHERE ns = ? AND queue = ? AND kind = ? FOR UPDATE;

-- name: pause-queue
-- Begins or changes a pause.
REPLACE INTO dibs_task_pauses (ns, queue, kind, since, until, by_, why) VALUES (?, ?, ?, @dibs_now, ?, ?, ?);

-- name: was-paused
-- Whether a pause held.
SET @dibs_pausing = (SELECT COUNT(*) FROM dibs_task_pauses WHERE ns = ? AND queue = ? AND kind = ? AND (until = 0 OR until > @dibs_now));
SELECT @dibs_pausing;

-- name: resume-queue
-- Ends a pause.
DELETE FROM dibs_task_pauses WHERE ns = ? AND queue = ? AND kind = ?;

-- name: resumed
-- Records its end, if it held.
INSERT INTO dibs_events (ns, at, id, kind, reason) SELECT ?, @dibs_now, ?, ?, ? FROM DUAL WHERE @dibs_pausing = 1;

-- name: count
-- Adds to a counter. The salt is 0, or a number of its own in a transaction of a caller's, so that nobody waits for
-- that.
INSERT INTO dibs_task_counts (ns, minute, queue, kind, name, salt, n) VALUES (?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE n = n + ?;

-- name: counts
-- Counters of [from, to).
SELECT queue, kind, name, CAST(SUM(n) AS SIGNED) FROM dibs_task_counts WHERE ns = ? AND minute >= ? AND minute < ?
GROUP BY queue, kind, name ORDER BY queue, kind, name;

-- name: forget-counts
-- Forgets old counters, a thousand at most.
DELETE FROM dibs_task_counts WHERE ns = ? AND minute < @dibs_now - ? LIMIT 1000;

-- name: worker-id
-- The number of a worker, made if it has none. LAST_INSERT_ID(id) also answers the id of a row that is there.
INSERT INTO dibs_task_workers (ns, owner, token, lease_key, host, does) VALUES (?, ?, ?, ?, '', '[[],[]]')
ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id);
SELECT LAST_INSERT_ID();

-- name: join-worker
-- Records what a worker tells of itself.
UPDATE dibs_task_workers SET host = ?, pid = ?, does = ?, slots = ?, since = IF(since = 0, @dibs_now, since), ended = 0 WHERE id = ? AND @dibs_ok = 1;

-- name: end-worker
-- A worker has left, or was found dead.
UPDATE dibs_task_workers SET ended = @dibs_now WHERE id = ?;

-- name: workers
-- Workers, whether the lease of each is live, and how many tasks it has; the next two say which.
SELECT w.id, w.lease_key, w.owner, w.token, w.host, w.pid, w.does, w.slots, w.since, l.ns IS NOT NULL,
  (SELECT COUNT(*) FROM dibs_tasks t FORCE INDEX (held) WHERE t.ns = w.ns AND t.holder = w.id)
FROM dibs_task_workers w FORCE INDEX (PRIMARY) LEFT JOIN dibs_leases l ON l.ns = w.ns AND l.lease_key = w.lease_key AND l.owner = w.owner
  AND l.token = w.token AND l.expires > @dibs_now

-- name: workers-there
-- Those that have not ended, and those that were thought to have ended while a fetch of theirs was under way.
JOIN (SELECT id FROM dibs_task_workers FORCE INDEX (ended) WHERE ns = ? AND ended = 0
  UNION SELECT holder FROM dibs_tasks FORCE INDEX (held) WHERE ns = ? AND holder > 0 GROUP BY holder) x ON x.id = w.id
WHERE w.ns = ? ORDER BY w.id;

-- name: workers-by-id
-- By their numbers.
WHERE w.ns = ? AND w.id IN (?);

-- name: forget-workers
-- Forgets workers that ended long ago, a thousand at most.
DELETE FROM dibs_task_workers WHERE ns = ? AND ended > 0 AND ended < @dibs_now - ? LIMIT 1000;

-- name: ids
-- The first and the last task of a namespace.
SELECT COALESCE((SELECT id FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? ORDER BY id LIMIT 1), 0),
COALESCE((SELECT id FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? ORDER BY id DESC LIMIT 1), -1);

-- name: window
-- What a step may read: so many tasks, in the order of their ids or down from the end. No statement walks over more.
SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0), COUNT(*) INTO @dibs_first, @dibs_last, @dibs_n FROM (SELECT id FROM dibs_tasks
FORCE INDEX (listed) WHERE ns = ? AND id > ? AND id < ? ORDER BY id ? LIMIT ?) w;
SELECT @dibs_first, @dibs_last, @dibs_n;

-- name: ascending
-- In the order of the ids.
ASC

-- name: descending
-- The newest first.
DESC

-- name: depths
-- Counts the tasks of that window.
SELECT queue, kind, state, COUNT(*), MIN(run_at) FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? AND id BETWEEN @dibs_first AND @dibs_last GROUP BY queue, kind, state;

-- name: mine
-- The tasks that a worker has, or with 1 those that are asked to stop.
SELECT id, token, stop FROM dibs_tasks FORCE INDEX (held) WHERE ns = ? AND holder = ? AND (? = 0 OR stop <> '') ORDER BY id;

-- name: tasks-window
-- The tasks of that window that fit a filter, of which the last instant is that of their end or else of their enqueue.
FORCE INDEX (listed) WHERE t.ns = ? AND t.id BETWEEN @dibs_first AND @dibs_last AND (? = '' OR t.queue = ?) AND (? = '' OR t.kind = ?)
AND (? = 0 OR t.state IN (?)) AND IF(t.state BETWEEN 5 AND 9, t.ended, t.enqueued) >= ? ORDER BY t.id ? LIMIT ?;

-- name: few
-- The ids of tasks of a final state that ended from an instant on; of state 0, of those that have not ended.
SELECT id FROM dibs_tasks FORCE INDEX (old) WHERE ns = ? AND done = ? AND ended >= ? LIMIT ?;

-- name: savepoint
-- Begins a step in a transaction of a caller's. Outside of a transaction the second statement fails, since there is
-- no savepoint then.
SAVEPOINT dibs_queue;
ROLLBACK TO SAVEPOINT dibs_queue;
SET @dibs_ok = 1;

-- name: undo-savepoint
-- Undoes the step, and nothing else of the transaction.
ROLLBACK TO SAVEPOINT dibs_queue;

-- name: drop-savepoint
-- The step is done.
RELEASE SAVEPOINT dibs_queue;

-- name: lock-wait
-- How long the caller's session waits for locks, in s.
SELECT @@innodb_lock_wait_timeout;

-- name: set-wait
-- Sets it, and sets it back (Q2).
SET SESSION innodb_lock_wait_timeout = ?;

-- name: utc-clock
-- The clock. The caller's session may have any time zone.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: on-timeout
-- Whether a lock timeout rolls back the whole transaction: then no step can be part of it.
SELECT @@innodb_rollback_on_timeout;

-- name: begun
-- Whether the database has the namespace.
SELECT COUNT(*) FROM dibs_meta WHERE ns = ?;

-- name: isolation
-- The isolation of the caller's transaction (Q2). The server refreshes that table only if nobody has read it for 100
-- ms; what it tells is of now if it tells of this very query, which the nonce shows.
SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID() AND LOCATE('NONCE', trx_query) > 0;

-- name: session-isolation
-- The isolation of the session. MySQL 8 has no tx_isolation, and MariaDB 10 no transaction_isolation.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation');

-- name: find-worker
-- The number of a worker, or none.
SELECT id FROM dibs_task_workers WHERE ns = ? AND owner = ? AND token = ? AND lease_key = ?;

-- name: lock-tasks
-- Locks tasks, and waits for them.
SELECT COUNT(ver) INTO @dibs_locked FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id IN (?) FOR UPDATE;

-- name: share-waiting
-- Shares a task that waits, so that it cannot start before the caller's transaction ends (Q2).
SELECT ver FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id = ? AND ver = ? AND state IN (0, 1, 2, 4) LOCK IN SHARE MODE;

-- name: lock-version
-- Locks a task, if it is still as it was read.
SELECT ver FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id = ? AND ver = ? FOR UPDATE;

-- name: subqueue-there
-- Whether a sub-queue has a row.
SELECT salt FROM dibs_task_subqueues WHERE ns = ? AND queue = ? AND kind = ? LIMIT 1;

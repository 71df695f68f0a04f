-- Fragments of the queue's packets: see queue.go for how they are put together.

-- name: at
SET @dibs_now = ?;

-- name: task-columns
SELECT t.id, t.ver, t.lane, t.queue, t.kind, t.state, t.class, t.ordinal, t.priority, t.run_at, t.enqueued, t.expires, t.started, t.ended,
t.attempts, t.granted, t.crashes, t.snoozes, t.begun, t.displaced, t.token, t.worker, t.completed,
t.ukey, t.win, t.limited, t.args, t.cold, t.reason, t.stop FROM dibs_tasks t

-- name: tasks-by-id
FORCE INDEX (PRIMARY) WHERE t.ns = ? AND t.id IN (?);

-- name: tasks-by-key
FORCE INDEX (one) WHERE t.ns = ? AND t.ukey IN (?);

-- name: tasks-due
FORCE INDEX (due) WHERE t.ns = ? AND t.lane = ? AND t.due_at > 0 AND t.due_at <= @dibs_now ORDER BY t.due_at, t.id LIMIT ?;

-- name: tasks-lapsed
FORCE INDEX (lapse) WHERE t.ns = ? AND t.lapses > 0 AND t.lapses <= @dibs_now ORDER BY t.lapses LIMIT ?;

-- name: tasks-windows
FORCE INDEX (win) WHERE t.ns = ? AND t.win > 0 AND t.win <= @dibs_now ORDER BY t.win LIMIT ?;

-- name: tasks-old
FORCE INDEX (old) WHERE t.ns = ? AND t.done = ? AND t.ended < @dibs_now - ? AND t.win = 0 ORDER BY t.ended LIMIT ?;

-- name: tasks-held
FORCE INDEX (held) WHERE t.ns = ? AND t.holder = ? ORDER BY t.id LIMIT ?;

-- name: tasks-slots
FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state = 3 ORDER BY t.id;

-- name: tasks-rivals
FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state IN (1, 2) AND t.id < ? AND (t.displaced = 1 OR t.line = 0) LIMIT ?;

-- name: unsettled-keys
-- Keys that somebody has or is taking, in a transaction that may not have ended. It is a hint; the index decides.
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
START TRANSACTION;
SELECT ukey FROM dibs_tasks FORCE INDEX (one) WHERE ns = ? AND ukey IN (?);
COMMIT;

-- name: live-worker
SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now;

-- name: whats-up
-- Whether the worker's lease is live, whether slots of limits are held back (1), or the namespace does not know
-- that server yet (2: see store/mysql/queue_held.go), and whether somebody has paused, bounded or left
-- something.
SELECT (SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now),
  COALESCE((SELECT IF(identity <> @dibs_identity OR hold_until > @dibs_now + max_ttl, 2, hold_until > @dibs_now) FROM dibs_meta WHERE ns = ?), 2),
  EXISTS (SELECT 1 FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now)) OR EXISTS (SELECT 1 FROM dibs_task_rates WHERE ns = ?) OR EXISTS (SELECT 1 FROM dibs_task_wakes WHERE ns = ?);

-- name: lanes
SELECT DISTINCT queue, kind FROM dibs_task_lanes WHERE ns = ?;

-- name: add-lane
INSERT INTO dibs_task_lanes (ns, queue, kind, salt) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE salt = dibs_task_lanes.salt;

-- name: due
SELECT id, limited IS NOT NULL FROM dibs_tasks FORCE INDEX (due)
WHERE ns = ? AND lane = ? AND due_at > 0 AND due_at <= @dibs_now ORDER BY due_at, id LIMIT ?;

-- name: next-due
-- Behind so many.
SELECT COALESCE((SELECT due_at FROM dibs_tasks FORCE INDEX (due) WHERE ns = ? AND lane = ? AND due_at > 0 ORDER BY due_at, id LIMIT 1 OFFSET ?), 0);

-- name: first-due
SELECT COALESCE(MIN(due_at), 0) FROM dibs_tasks FORCE INDEX (due) WHERE ns = ? AND lane = ? AND due_at > 0;

-- name: ready
SELECT id, queue, kind, ordinal, class, limited, expires FROM dibs_tasks FORCE INDEX (ready)
WHERE ns = ? AND lane = ? AND state = 1 AND class = ? ORDER BY ordinal, id LIMIT ?;

-- name: took
-- How much time the packet has taken so far, by the server.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) - @dibs_now;

-- name: ripe
-- Those of the named tasks that are due and that nobody holds.
SELECT GROUP_CONCAT(id) INTO @dibs_ids FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) AND due_at > 0 AND due_at <= @dibs_now AND limited IS NULL FOR UPDATE SKIP LOCKED;
SET @dibs_sql = CONCAT('UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = 1, due_at = 0, ver = ver + 1 WHERE id IN (', COALESCE(@dibs_ids, '0'), ')');
PREPARE dibs_ripen FROM @dibs_sql;
EXECUTE dibs_ripen;

-- name: hold
-- The step goes on in packets to come. Where none comes for some seconds, the server closes the connection, and has
-- rolled back then: a client that was stopped keeps nobody waiting for longer.
SET @dibs_idle = @@wait_timeout;
SET SESSION wait_timeout = 5;

-- name: held
SET SESSION wait_timeout = @dibs_idle;

-- name: give-up
ROLLBACK;
SET SESSION innodb_lock_wait_timeout = @dibs_was, SESSION group_concat_max_len = @dibs_concat, SESSION wait_timeout = @dibs_idle;

-- name: lock-limits
-- In the order of the primary key. Whoever waits here holds no lock that another one of these waits for.
SELECT GROUP_CONCAT(HEX(hash)) INTO @dibs_limits FROM dibs_task_limits FORCE INDEX (PRIMARY) WHERE ns = ? AND hash IN (?) FOR UPDATE;

-- name: lock-free-limits
-- Those that nobody has.
SELECT GROUP_CONCAT(HEX(hash)) INTO @dibs_limits FROM dibs_task_limits FORCE INDEX (PRIMARY) WHERE ns = ? AND hash IN (?) FOR UPDATE SKIP LOCKED;

-- name: locked-limits
-- With the first of those that are blocked, and the last lane in which somebody is. A statement of
-- its own: it sees what was committed before the locks were had.
SELECT l.hash, l.limit_key, l.slots, l.declared, l.token, COALESCE(FIND_IN_SET(HEX(l.hash), @dibs_limits), 0) > 0,
  (SELECT COUNT(*) FROM dibs_tasks t FORCE INDEX (line) WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 3),
  (SELECT CONCAT_WS(' ', t.id, t.ver, t.lane, t.ordinal, t.expires) FROM dibs_tasks t FORCE INDEX (line)
   WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 2 AND t.line = 1
   ORDER BY t.lane, t.ordinal, t.id LIMIT 1),
  (SELECT t.lane FROM dibs_tasks t FORCE INDEX (line)
   WHERE t.ns = l.ns AND t.limited = l.hash AND t.state = 2 AND t.line = 1 ORDER BY t.lane DESC LIMIT 1)
FROM dibs_task_limits l FORCE INDEX (PRIMARY) WHERE l.ns = ? AND l.hash IN (?);

-- name: slots
SELECT limit_key, slots FROM dibs_task_limits WHERE ns = ? AND hash = ?;

-- name: open-in-line
SELECT limited, id, ver, lane, ordinal FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited IN (?) AND state = 1 AND line = 1 AND FIND_IN_SET(HEX(limited), @dibs_limits)
ORDER BY limited, lane, ordinal, id LIMIT ?;

-- name: blocked-in-line
SELECT id, ver, lane, ordinal, expires > 0 AND expires <= @dibs_now FROM dibs_tasks FORCE INDEX (line)
WHERE ns = ? AND limited = ? AND state = 2 AND line = 1 AND lane = ? ORDER BY ordinal, id LIMIT ?;

-- name: blocked-lanes
-- Found by one look each, however long the line is.
WITH RECURSIVE l (lane) AS (
  SELECT (SELECT MIN(t.lane) FROM dibs_tasks t FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state = 2 AND t.line = 1)
  UNION ALL
  SELECT (SELECT MIN(t.lane) FROM dibs_tasks t FORCE INDEX (line) WHERE t.ns = ? AND t.limited = ? AND t.state = 2 AND t.line = 1 AND t.lane > l.lane)
  FROM l WHERE l.lane IS NOT NULL)
SELECT lane FROM l WHERE lane IS NOT NULL;

-- name: ensure-limit
INSERT INTO dibs_task_limits (ns, hash, limit_key, slots) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE slots = dibs_task_limits.slots;

-- name: blocked
-- The last of so many that come after one.
SELECT lane, ordinal, id FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited = ? AND state = 2 AND line = 1
AND (lane > ? OR lane = ? AND (ordinal > ? OR ordinal = ? AND id > ?)) ORDER BY lane, ordinal, id LIMIT 1 OFFSET ?;

-- name: blocked-rest
SELECT COUNT(*) FROM (SELECT id FROM dibs_tasks FORCE INDEX (line) WHERE ns = ? AND limited = ? AND state = 2 AND line = 1
AND (lane > ? OR lane = ? AND (ordinal > ? OR ordinal = ? AND id > ?)) LIMIT ?) r;

-- name: wakes
-- The oldest up to one, each with the youngest there is.
SELECT id, hash, limit_key, slots, (SELECT MAX(id) FROM dibs_task_wakes FORCE INDEX (PRIMARY) WHERE ns = ?) FROM dibs_task_wakes FORCE INDEX (PRIMARY)
WHERE ns = ? AND id <= ? ORDER BY id LIMIT 20;

-- name: add-wake
INSERT INTO dibs_task_wakes (ns, hash, limit_key, slots) VALUES (?, ?, ?, ?);

-- name: drop-wakes
DELETE w FROM dibs_task_wakes w FORCE INDEX (PRIMARY) WHERE ns = ? AND id IN (?);

-- name: fresh
SET @dibs_ok = 1, @dibs_ids = NULL, @dibs_claimed = NULL, @dibs_was = @@innodb_lock_wait_timeout, @dibs_concat = @@group_concat_max_len;
SET SESSION innodb_lock_wait_timeout = 2, SESSION group_concat_max_len = 1048576;

-- name: hold-rates
SELECT COUNT(IF(CONCAT(ver, '/', kind) IN (?), 1, NULL)) INTO @dibs_n FROM dibs_task_rates FORCE INDEX (PRIMARY)
WHERE ns = ? AND kind IN (?) FOR UPDATE;
SET @dibs_ok = @dibs_ok AND @dibs_n = ?;

-- name: hold-tasks
-- Nobody is waited for: a transaction of a caller's may have a task for long.
SELECT COUNT(IF(CONCAT(ver, '/', id) IN (?), 1, NULL)), GROUP_CONCAT(id) INTO @dibs_n, @dibs_ids FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) FOR UPDATE SKIP LOCKED;
SET @dibs_ok = @dibs_ok AND @dibs_n = ?;

-- name: if-current
-- What was decided at an instant is not carried out much later.
SET @dibs_ok = @dibs_ok AND @dibs_now <= ?;

-- name: if-live
SET @dibs_alive = (SELECT COUNT(*) FROM dibs_leases WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now);
SET @dibs_ok = @dibs_ok AND @dibs_alive = 1;

-- name: if-not-held
SET @dibs_ok = @dibs_ok AND EXISTS (SELECT 1 FROM dibs_meta WHERE ns = ? AND identity = ? AND hold_until <= @dibs_now);

-- name: no-pause
-- Until the end of the transaction: whoever pauses waits for the fetches that are under way, so that nothing is
-- given once he has been answered.
SELECT COUNT(created) INTO @dibs_locked FROM dibs_meta WHERE ns = ? LOCK IN SHARE MODE;

-- name: before-pause
SELECT COUNT(created) INTO @dibs_locked FROM dibs_meta WHERE ns = ? FOR UPDATE;

-- name: if-unpaused
-- No pause holds but those that the step knew, by when they began.
SET @dibs_ok = @dibs_ok AND (SELECT COUNT(*) FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now) AND since NOT IN (?)) = 0;

-- name: if-unbounded
-- No kind has a rate that the step did not know.
SET @dibs_ok = @dibs_ok AND (SELECT COUNT(*) FROM dibs_task_rates WHERE ns = ? AND kind NOT IN (?)) = 0;

-- name: if-one
SET @dibs_ok = @dibs_ok AND ROW_COUNT() = 1;

-- name: claim-tasks
-- The first of the named tasks that nobody has, or has moved elsewhere since. SKIP LOCKED: two fetches share
-- them without waiting. No more are locked than are taken, so the order is that of the index.
SELECT GROUP_CONCAT(t.id) INTO @dibs_claimed FROM (SELECT id FROM dibs_tasks FORCE INDEX (PRIMARY)
WHERE id IN (?) AND lane IN (?) AND state = 1 AND class = 0 AND limited IS NULL AND (expires = 0 OR expires > @dibs_now) ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED) t;
SET @dibs_claimed = IF(@dibs_ok = 1, COALESCE(@dibs_claimed, '0'), '0'), @dibs_worker = ?;
SET @dibs_sql = CONCAT('UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = 3, lapses = 0, due_at = 0, started = @dibs_now, begun = 0, worker = @dibs_worker, holder = @dibs_worker, token = GREATEST(token + 1, @dibs_now), stop = '''', ver = ver + 1 WHERE id IN (', @dibs_claimed, ')');
PREPARE dibs_claim FROM @dibs_sql;
EXECUTE dibs_claim;

-- name: claimed-prefix
SET @dibs_sql = CONCAT(?, ' FORCE INDEX (PRIMARY) WHERE t.id IN (', @dibs_claimed, ')');
PREPARE dibs_claim FROM @dibs_sql;
EXECUTE dibs_claim;

-- name: flip-tasks
UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET state = ?, ver = ver + 1 WHERE id IN (?) AND @dibs_ok = 1;

-- name: take-key
-- IGNORE: where somebody else has taken the key, nothing is changed, and the packet goes on to its end.
UPDATE IGNORE dibs_tasks FORCE INDEX (PRIMARY) SET ukey = ? WHERE id = ? AND @dibs_ok = 1;

-- name: update-spec
UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET cold = ?, args = ? WHERE id = ? AND @dibs_ok = 1;

-- name: insert-tasks
INSERT INTO dibs_tasks (ns, lane, queue, kind, state, class, ordinal, priority, run_at, due_at,
enqueued, expires, lapses, started, ended, done, attempts, granted, crashes, snoozes, begun, displaced,
token, worker, holder, completed, ukey, win, limited, line, reason, stop, cold, args) VALUES

-- name: same
ON DUPLICATE KEY UPDATE ver = dibs_tasks.ver;

-- name: plain-row
(?, ?, ?, ?, IF(IF(? = 0, @dibs_now, ?) + ? > @dibs_now, 0, 1), 0, ?, ?, IF(? = 0, @dibs_now, ?) + ?, IF(IF(? = 0, @dibs_now, ?) + ? > @dibs_now, IF(? = 0, @dibs_now, ?) + ?, 0),
@dibs_now, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, '', '', ?, ?)

-- name: inserted
SELECT @dibs_now, LAST_INSERT_ID(), @@auto_increment_increment;

-- name: delete-tasks
DELETE t FROM dibs_tasks t FORCE INDEX (PRIMARY) WHERE id IN (?) AND @dibs_ok = 1;

-- name: delete-attempts
DELETE a FROM dibs_task_attempts a FORCE INDEX (PRIMARY) WHERE task IN (?);

-- name: add-attempt
INSERT INTO dibs_task_attempts (task, attempt) VALUES (?, ?);

-- name: attempts
SELECT attempt FROM dibs_task_attempts WHERE task = ? ORDER BY i;

-- name: raise-tokens
UPDATE dibs_task_limits SET token = ? WHERE ns = ? AND hash IN (?) AND @dibs_ok = 1;

-- name: set-slots
UPDATE dibs_task_limits SET slots = ?, declared = ? WHERE ns = ? AND hash = ? AND @dibs_ok = 1;

-- name: set-word
UPDATE dibs_task_limits SET said_by = ?, said = ? WHERE ns = ? AND hash = ? AND @dibs_ok = 1;

-- name: limits-said
SELECT hash, limit_key, slots, declared, said_by, said FROM dibs_task_limits FORCE INDEX (said)
WHERE ns = ? AND declared > 0 ORDER BY limit_key, hash LIMIT 1000;

-- name: use-rate
UPDATE dibs_task_rates SET full = ?, ver = ver + 1 WHERE ns = ? AND kind = ?;

-- name: decide
-- All of it, or nothing. COMMIT may be prepared and ROLLBACK may not, everywhere; after a COMMIT it does nothing.
SET @dibs_sql = IF(@dibs_ok = 1, 'COMMIT', 'DO 0');
PREPARE dibs_end FROM @dibs_sql;
EXECUTE dibs_end;
ROLLBACK;
SET SESSION innodb_lock_wait_timeout = @dibs_was, SESSION group_concat_max_len = @dibs_concat;
SELECT @dibs_ok, @dibs_now, COALESCE(@dibs_ids, '');

-- name: rates
SELECT kind, ver, each_, burst, full FROM dibs_task_rates WHERE ns = ?;

-- name: set-rate
INSERT INTO dibs_task_rates (ns, kind, each_, burst) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE each_ = ?, burst = ?, ver = ver + 1;

-- name: drop-rate
DELETE FROM dibs_task_rates WHERE ns = ? AND kind = ?;

-- name: pauses
SELECT queue, kind, since, until, by_, why FROM dibs_task_pauses WHERE ns = ? AND (until = 0 OR until > @dibs_now) ORDER BY queue, kind;

-- name: lock-pause
SELECT COUNT(since) INTO @dibs_locked FROM dibs_task_pauses FORCE INDEX (PRIMARY) WHERE ns = ? AND queue = ? AND kind = ? FOR UPDATE;

-- name: pause-queue
REPLACE INTO dibs_task_pauses (ns, queue, kind, since, until, by_, why) VALUES (?, ?, ?, @dibs_now, ?, ?, ?);

-- name: was-paused
SET @dibs_pausing = (SELECT COUNT(*) FROM dibs_task_pauses WHERE ns = ? AND queue = ? AND kind = ? AND (until = 0 OR until > @dibs_now));
SELECT @dibs_pausing;

-- name: resume-queue
DELETE FROM dibs_task_pauses WHERE ns = ? AND queue = ? AND kind = ?;

-- name: resumed
INSERT INTO dibs_events (ns, at, id, kind, reason) SELECT ?, @dibs_now, ?, ?, ? FROM DUAL WHERE @dibs_pausing = 1;

-- name: count
INSERT INTO dibs_task_counts (ns, minute, queue, kind, name, salt, n) VALUES (?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE n = n + ?;

-- name: counts
SELECT queue, kind, name, CAST(SUM(n) AS SIGNED) FROM dibs_task_counts WHERE ns = ? AND minute >= ? AND minute < ?
GROUP BY queue, kind, name ORDER BY queue, kind, name;

-- name: forget-counts
DELETE FROM dibs_task_counts WHERE ns = ? AND minute < @dibs_now - ? LIMIT 1000;

-- name: worker-id
INSERT INTO dibs_task_workers (ns, owner, token, lease_key, host, does) VALUES (?, ?, ?, ?, '', '[[],[]]')
ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id);
SELECT LAST_INSERT_ID();

-- name: join-worker
UPDATE dibs_task_workers SET host = ?, pid = ?, does = ?, slots = ?, since = IF(since = 0, @dibs_now, since), ended = 0 WHERE id = ? AND @dibs_ok = 1;

-- name: end-worker
UPDATE dibs_task_workers SET ended = @dibs_now WHERE id = ?;

-- name: workers
SELECT w.id, w.lease_key, w.owner, w.token, w.host, w.pid, w.does, w.slots, w.since, l.ns IS NOT NULL,
  (SELECT COUNT(*) FROM dibs_tasks t FORCE INDEX (held) WHERE t.ns = w.ns AND t.holder = w.id)
FROM dibs_task_workers w LEFT JOIN dibs_leases l ON l.ns = w.ns AND l.lease_key = w.lease_key AND l.owner = w.owner
  AND l.token = w.token AND l.expires > @dibs_now

-- name: workers-there
-- And those that were thought to have ended, while a fetch of theirs was under way.
WHERE w.ns = ? AND (w.ended = 0 OR w.id IN (SELECT holder FROM dibs_tasks FORCE INDEX (held) WHERE ns = ? AND holder > 0)) ORDER BY w.id;

-- name: workers-by-id
WHERE w.ns = ? AND w.id IN (?);

-- name: forget-workers
DELETE FROM dibs_task_workers WHERE ns = ? AND ended > 0 AND ended < @dibs_now - ? LIMIT 1000;

-- name: window
-- So many tasks, in the order of their ids: no statement walks over more.
SELECT COALESCE(MAX(id), 0), COUNT(*) INTO @dibs_end, @dibs_n FROM (SELECT id FROM dibs_tasks FORCE INDEX (listed)
WHERE ns = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?) w;
SELECT @dibs_end, @dibs_n;

-- name: depths
SELECT queue, kind, state, COUNT(*), MIN(run_at) FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? AND id > ? AND id <= @dibs_end GROUP BY queue, kind, state;

-- name: mine
SELECT id, token, stop FROM dibs_tasks FORCE INDEX (held) WHERE ns = ? AND holder = ? AND (? = 0 OR stop <> '') ORDER BY id;

-- name: tasks-filtered
FORCE INDEX (listed) WHERE t.ns = ? AND t.id > ? AND t.id <= @dibs_end AND (? = '' OR t.queue = ?) AND (? = '' OR t.kind = ?) AND (? = 0 OR t.state IN (?)) ORDER BY t.id LIMIT ?;

-- name: savepoint
-- Outside of a transaction there is none to go back to.
SAVEPOINT dibs_queue;
ROLLBACK TO SAVEPOINT dibs_queue;
SET @dibs_ok = 1;

-- name: undo-savepoint
ROLLBACK TO SAVEPOINT dibs_queue;

-- name: drop-savepoint
RELEASE SAVEPOINT dibs_queue;

-- name: lock-wait
SELECT @@innodb_lock_wait_timeout;

-- name: set-wait
SET SESSION innodb_lock_wait_timeout = ?;

-- name: utc-clock
-- The caller's session may have any time zone.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: on-timeout
SELECT @@innodb_rollback_on_timeout;

-- name: begun
SELECT COUNT(*) FROM dibs_meta WHERE ns = ?;

-- name: isolation
-- The server renews that table only where nobody has read it for 100 ms. What it tells is of now if it tells of
-- this very query.
SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID() AND LOCATE('NONCE', trx_query) > 0;

-- name: session-isolation
-- MySQL 8 has no tx_isolation, and MariaDB 10 has no transaction_isolation.
SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation');

-- name: find-worker
SELECT id FROM dibs_task_workers WHERE ns = ? AND owner = ? AND token = ? AND lease_key = ?;

-- name: lock-tasks
SELECT COUNT(ver) INTO @dibs_locked FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id IN (?) FOR UPDATE;

-- name: share-waiting
SELECT ver FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id = ? AND ver = ? AND state IN (0, 1, 2, 4) LOCK IN SHARE MODE;

-- name: lock-version
SELECT ver FROM dibs_tasks FORCE INDEX (PRIMARY) WHERE id = ? AND ver = ? FOR UPDATE;

-- name: lane-there
SELECT salt FROM dibs_task_lanes WHERE ns = ? AND queue = ? AND kind = ? LIMIT 1;

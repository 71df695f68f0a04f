-- The statements of the queue, each under its name; comments are left out when they are read. Decisions are made in
-- Go, between reading and writing rows: a writing transaction has the database to itself, so no statement compares
-- what it writes.
--
-- A partial index is used only if its own condition stands in the query, word for word: hence "state IN (1, 2) AND
-- state = 1", and "limited IS NOT NULL" beside "limited = ?". TestQueuePlans checks that each statement finds its
-- index. INDEXED BY makes a statement that does not fit its index an error instead of a scan. A LIMIT bounds each
-- step.
--
-- A sub-queue is one kind in one queue. The states are those of the migration.

-- name: write_lock
-- Makes a caller's transaction a writing one before it reads: SQLite cannot upgrade a transaction whose reads have
-- become old.
UPDATE dibs_schema SET version = version WHERE false

-- name: subqueue_id
-- The number of a sub-queue, made if there is none. The assignment changes nothing, but makes RETURNING answer.
INSERT INTO dibs_subqueues (queue, kind) VALUES (?, ?) ON CONFLICT DO UPDATE SET queue = queue RETURNING id

-- name: subqueues
-- A page of sub-queues.
SELECT id, queue, kind FROM dibs_subqueues WHERE id >= ? ORDER BY id LIMIT ?

-- name: subqueues_of
-- A page of the sub-queues of a queue.
SELECT id, queue, kind FROM dibs_subqueues INDEXED BY dibs_subqueues_of WHERE queue = ? AND id >= ? ORDER BY id LIMIT ?

-- name: subqueues_ready
-- The sub-queues of all queues that have available tasks, from one on. The index is followed from each to the next,
-- however many tasks they have.
WITH RECURSIVE next (id, n) AS (
  SELECT (SELECT min(subqueue) FROM dibs_tasks INDEXED BY dibs_tasks_ready WHERE state = 1 AND subqueue >= ?1), 1
  UNION ALL
  SELECT (SELECT min(subqueue) FROM dibs_tasks INDEXED BY dibs_tasks_ready WHERE state = 1 AND subqueue > next.id), n + 1
  FROM next WHERE id IS NOT NULL AND n < ?2
)
SELECT l.id, l.queue, l.kind FROM next JOIN dibs_subqueues l ON l.id = next.id

-- name: subqueues_waiting
-- The same of tasks that wait for their instant.
WITH RECURSIVE next (id, n) AS (
  SELECT (SELECT min(subqueue) FROM dibs_tasks INDEXED BY dibs_tasks_due WHERE state IN (0, 4) AND subqueue >= ?1), 1
  UNION ALL
  SELECT (SELECT min(subqueue) FROM dibs_tasks INDEXED BY dibs_tasks_due WHERE state IN (0, 4) AND subqueue > next.id), n + 1
  FROM next WHERE id IS NOT NULL AND n < ?2
)
SELECT l.id, l.queue, l.kind FROM next JOIN dibs_subqueues l ON l.id = next.id

-- name: subqueue_known
-- A sub-queue by its name.
SELECT id, queue, kind FROM dibs_subqueues WHERE queue = ? AND kind = ?

-- name: subqueues_range
-- The least and the largest number of a queue's sub-queues.
SELECT coalesce((SELECT min(id) FROM dibs_subqueues INDEXED BY dibs_subqueues_of WHERE queue = ?1), 0),
  coalesce((SELECT max(id) FROM dibs_subqueues INDEXED BY dibs_subqueues_of WHERE queue = ?1), 0)

-- name: task_columns
-- What is read of a task; Go appends which one.
SELECT t.id, t.subqueue, l.queue, l.kind, t.state, t.class, t.rank, t.priority, t.run_at, t.enqueued, t.expires, t.started, t.ended,
  t.attempts, t.granted, t.crashes, t.snoozes, t.begun, t.displaced, t.token, t.worker, t.completed,
  t.ukey, t.window, coalesce(t.limited, 0), t.args, t.options, t.reason, t.stop
FROM dibs_tasks t JOIN dibs_subqueues l ON l.id = t.subqueue

-- name: few_open
-- The ids of tasks in a range of states, by sub-queue.
SELECT t.id FROM dibs_subqueues l CROSS JOIN dibs_tasks t INDEXED BY dibs_tasks_subqueue WHERE t.subqueue = l.id AND t.state BETWEEN ? AND ? LIMIT ?

-- name: few_ended
-- The ids of tasks of a final state that ended from an instant on, except for those with an open window.
SELECT id FROM dibs_tasks INDEXED BY dibs_tasks_ended WHERE state >= 5 AND window = 0 AND state = ? AND ended >= ? LIMIT ?

-- name: few_windows
-- The ids of tasks with an open window.
SELECT id FROM dibs_tasks INDEXED BY dibs_tasks_window WHERE window > 0 LIMIT ?

-- name: task_insert
-- Inserts a task. The unique index on ukey is what makes keys unique (Q1).
INSERT INTO dibs_tasks (subqueue, state, class, rank, priority, run_at, enqueued, expires, started, ended, attempts, granted, crashes, snoozes,
  begun, displaced, token, worker, completed, ukey, window, limited, line, reason, stop, args, options)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?) RETURNING id

-- name: task_update
-- Writes a task, except its arguments and options.
UPDATE dibs_tasks SET subqueue = ?, state = ?, class = ?, rank = ?, priority = ?, run_at = ?, enqueued = ?, expires = ?, started = ?, ended = ?,
  attempts = ?, granted = ?, crashes = ?, snoozes = ?, begun = ?, displaced = ?, token = ?, worker = ?, completed = ?,
  ukey = ?, window = ?, limited = nullif(?, 0), line = ?, reason = ?, stop = ?
WHERE id = ?

-- name: task_set_aside
-- Ends a task that cannot be understood, without its limit and its unique key. All else of it stays as it is.
UPDATE dibs_tasks SET state = ?, ended = ?, ukey = NULL, window = 0, limited = NULL, line = 0, stop = '', reason = ? WHERE id = ?

-- name: task_respell
-- Writes its arguments and options.
UPDATE dibs_tasks SET args = ?, options = ? WHERE id = ?

-- name: task_delete
-- Deletes a task.
DELETE FROM dibs_tasks WHERE id = ?

-- name: attempts_delete
-- Deletes its attempts.
DELETE FROM dibs_attempts WHERE task = ?

-- name: attempt_add
-- Adds an attempt to a task's history.
INSERT INTO dibs_attempts (task, i, attempt) SELECT ?1, coalesce(max(i), 0) + 1, ?2 FROM dibs_attempts WHERE task = ?1

-- name: attempts_trim
-- Deletes the attempt after the first ?2 of more than ?3.
DELETE FROM dibs_attempts WHERE task = ?1
  AND i = (SELECT i FROM dibs_attempts WHERE task = ?1 ORDER BY i LIMIT 1 OFFSET ?2)
  AND EXISTS (SELECT 1 FROM dibs_attempts WHERE task = ?1 ORDER BY i LIMIT 1 OFFSET ?3)

-- name: attempts
-- A task's attempts, the oldest first.
SELECT attempt FROM dibs_attempts WHERE task = ? ORDER BY i

-- name: ready
-- The first available tasks of a sub-queue and class, in order.
SELECT id, rank FROM dibs_tasks WHERE state = 1 AND subqueue = ? AND class = ? ORDER BY rank, id LIMIT ?

-- name: due
-- Tasks of a sub-queue whose instant has come, the earliest first.
SELECT id FROM dibs_tasks WHERE state IN (0, 4) AND subqueue = ? AND run_at <= ? ORDER BY run_at, id LIMIT ?

-- name: next_due
-- The next instant of a sub-queue; 0: none.
SELECT coalesce(min(run_at), 0) FROM dibs_tasks INDEXED BY dibs_tasks_due WHERE state IN (0, 4) AND subqueue = ?

-- name: limit_declare
-- The limit of a hash, made if there is none, with how many of its tasks run. The first token is larger than the
-- instant at which the limit was made: so token also tells when it was used last.
INSERT INTO dibs_limits (hash, key, max, token) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET key = key
RETURNING id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3)

-- name: limit_get
-- A limit by its number.
SELECT id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3) FROM dibs_limits WHERE id = ?

-- name: limit_find
-- A limit by its hash.
SELECT id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3) FROM dibs_limits WHERE hash = ?

-- name: limits_from
-- The next limits, and whether each can be forgotten: no operator's word stands, it was not used since an instant, no
-- task runs or waits under it, and its sub-queues are in order. The youngest one stays, so that its number is not
-- given again: tasks that have ended or are not due still name the numbers of forgotten ones.
SELECT id, declared = 0 AND token < ? AND round_at < 0 AND id < (SELECT max(id) FROM dibs_limits)
  AND NOT EXISTS (SELECT 1 FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3)
  AND NOT EXISTS (SELECT 1 FROM dibs_tasks INDEXED BY dibs_tasks_line WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state IN (1, 2))
FROM dibs_limits WHERE id >= ? ORDER BY id LIMIT ?

-- name: limit_forget
-- Forgets a limit.
DELETE FROM dibs_limits WHERE id = ?

-- name: limit_given
-- The largest token that was given under a limit: later ones are larger.
UPDATE dibs_limits SET token = ? WHERE id = ?

-- name: limit_declared
-- What a limit's tasks declare (Q5).
UPDATE dibs_limits SET max = ?, declared = ? WHERE id = ?

-- name: limit_said
-- An operator's word, and what stands below it.
UPDATE dibs_limits SET max = ?, declared = ?, said_by = ?, said = ? WHERE id = ?

-- name: limits_said
-- The operators' words that stand, a thousand at most.
SELECT hash, key, max, declared, said_by, said FROM dibs_limits WHERE declared > 0 ORDER BY key, hash LIMIT 1000

-- name: line_subqueues
-- The sub-queues from ?2 up to ?4 in which tasks stand in line for a limit, ?3 at most. Each is found by one probe of
-- the index, however long the line is.
WITH RECURSIVE l (subqueue) AS (
  SELECT min(subqueue) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND subqueue >= ?2
  UNION ALL
  SELECT (SELECT min(subqueue) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND subqueue > l.subqueue)
  FROM l WHERE l.subqueue IS NOT NULL LIMIT ?3),
o (subqueue) AS (
  SELECT min(subqueue) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue >= ?2
  UNION ALL
  SELECT (SELECT min(subqueue) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue > o.subqueue)
  FROM o WHERE o.subqueue IS NOT NULL LIMIT ?3)
SELECT subqueue FROM l WHERE subqueue < ?4 UNION SELECT subqueue FROM o WHERE subqueue < ?4 ORDER BY subqueue LIMIT ?3

-- name: line_any
-- Whether any task of a sub-queue is in line for a limit.
SELECT EXISTS (SELECT 1 FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND subqueue = ?)

-- name: line_count
-- How many tasks of a sub-queue are available at a limit, up to a bound.
SELECT count(*) FROM (SELECT 1 FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue = ? LIMIT ?)

-- name: line_last
-- The last of them: those that step back first.
SELECT id, rank FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue = ? ORDER BY rank DESC, id DESC LIMIT ?

-- name: line_next
-- The first blocked ones: those that are promoted next (Q5).
SELECT id, rank FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND subqueue = ? ORDER BY rank, id LIMIT ?

-- name: part_count
-- This and the next two do the same for suspects alone, or for all others: where a limit has many free slots they are
-- counted apart, so that suspects, which are given one by one, hold up no others.
SELECT count(*) FROM (SELECT 1 FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue = ? AND (class > 0) = ? LIMIT ?)

-- name: part_last
SELECT id, rank FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND subqueue = ? AND (class > 0) = ? ORDER BY rank DESC, id DESC LIMIT ?

-- name: part_next
SELECT id, rank FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND subqueue = ? AND (class > 0) = ? ORDER BY rank, id LIMIT ?

-- name: states
-- The states of tasks. A list of ids is a text of JSON.
SELECT id, state FROM dibs_tasks WHERE id IN (SELECT value FROM json_each(?))

-- name: set_states
-- Changes them, and nothing else of the tasks.
UPDATE dibs_tasks SET state = ? WHERE id IN (SELECT value FROM json_each(?))

-- name: displacing
-- Tasks between two ids that a displacing task supersedes.
SELECT id FROM dibs_tasks INDEXED BY dibs_tasks_displacing WHERE limited = ? AND limited IS NOT NULL AND state IN (1, 2) AND (displaced = 1 OR line = 0)
  AND id > ? AND id < ? ORDER BY id LIMIT ?

-- name: displaceable
-- Running tasks of a limit that were not asked to stop.
SELECT id FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND state = 3 AND stop = '' LIMIT ?

-- name: limit_round
-- Where bringing a limit's sub-queues in order goes on.
UPDATE dibs_limits SET round_at = ?, round_end = ? WHERE id = ?

-- name: rounds
-- Limits that are not in order yet.
SELECT id FROM dibs_limits INDEXED BY dibs_limits_round WHERE round_at >= 0 AND id >= ? ORDER BY id LIMIT ?

-- name: slots
-- The tasks that have slots of a limit, a thousand at most.
SELECT t.id, l.kind, t.started, t.worker FROM dibs_tasks t JOIN dibs_subqueues l ON l.id = t.subqueue WHERE t.limited = ? AND t.limited IS NOT NULL AND t.state = 3 ORDER BY t.id LIMIT 1000

-- name: blocked
-- How many tasks wait for a limit.
SELECT count(*) FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND state IN (1, 2) AND state = 2

-- name: worker_id
-- The number of a worker, made if there is none.
INSERT INTO dibs_workers (key, owner, token) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET key = key RETURNING id

-- name: worker_join
-- Records what a worker tells of itself.
UPDATE dibs_workers SET host = ?, pid = ?, does = ?, slots = ?, since = CASE since WHEN 0 THEN ? ELSE since END, ended = 0 WHERE id = ?

-- name: worker_back
-- A worker that was thought to have ended is back.
UPDATE dibs_workers SET ended = 0 WHERE id = ? AND ended > 0

-- name: worker_end
-- A worker has left, or was found dead.
UPDATE dibs_workers SET ended = ? WHERE id = ?

-- name: workers_there
-- A page of workers that have not ended.
SELECT id, key, owner, token, host, pid, does, slots, since FROM dibs_workers INDEXED BY dibs_workers_there WHERE ended = 0 AND id > ? ORDER BY id LIMIT ?

-- name: worker_get
-- One worker.
SELECT id, key, owner, token, host, pid, does, slots, since FROM dibs_workers WHERE id = ?

-- name: workers_forget
-- Forgets workers that ended long ago.
DELETE FROM dibs_workers WHERE id IN (SELECT id FROM dibs_workers WHERE ended > 0 AND ended < ? LIMIT ?)

-- name: running
-- The tasks that a worker has.
SELECT id, token, stop FROM dibs_tasks WHERE state = 3 AND worker = ? ORDER BY id LIMIT ?

-- name: running_count
-- How many it has.
SELECT count(*) FROM dibs_tasks WHERE state = 3 AND worker = ?

-- name: expired
-- Waiting tasks whose expires_at has passed (Q6).
SELECT id FROM dibs_tasks WHERE expires > 0 AND expires <= ? AND state IN (0, 1, 2, 4) ORDER BY expires LIMIT ?

-- name: windows
-- Tasks whose window is over (Q1).
SELECT id FROM dibs_tasks WHERE window > 0 AND window <= ? ORDER BY window LIMIT ?

-- name: old
-- Tasks of a final state whose retention is over. One whose window is open stays.
SELECT id FROM dibs_tasks WHERE state = ? AND state >= 5 AND ended < ? AND window = 0 ORDER BY ended LIMIT ?

-- name: pauses
-- The pauses that hold.
SELECT queue, kind, since, until, by, why FROM dibs_pauses WHERE until = 0 OR until > ? ORDER BY queue, kind

-- name: pauses_of
-- Whether a pause covers a queue and a kind.
SELECT count(*) FROM dibs_pauses WHERE queue IN ('', ?1) AND kind IN ('', ?2) AND (until = 0 OR until > ?3)

-- name: pause
-- Begins or changes a pause.
INSERT OR REPLACE INTO dibs_pauses (queue, kind, since, until, by, why) VALUES (?, ?, ?, ?, ?, ?)

-- name: resume
-- Ends a pause, and answers until when it would have held.
DELETE FROM dibs_pauses WHERE queue = ? AND kind = ? RETURNING until

-- name: rate_set
-- Declares a rate. What the kind has used of it stays used.
INSERT INTO dibs_rates (kind, each, burst, full, per, most, taken) VALUES (?, ?, ?, 0, ?, ?, '')
ON CONFLICT DO UPDATE SET each = excluded.each, burst = excluded.burst, per = excluded.per, most = excluded.most

-- name: rate_delete
-- Drops a rate.
DELETE FROM dibs_rates WHERE kind = ?

-- name: rates
-- The rates.
SELECT kind, each, burst, full, per, most, taken FROM dibs_rates

-- name: rate_of
-- The rate of a kind.
SELECT kind, each, burst, full, per, most, taken FROM dibs_rates WHERE kind = ?

-- name: rate_use
-- Writes what a fetch used of a rate.
UPDATE dibs_rates SET full = ?, taken = ? WHERE kind = ?

-- name: count
-- Adds to a counter.
INSERT INTO dibs_counts (minute, queue, kind, name, n) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: counts
-- Counters of [from, to).
SELECT queue, kind, name, sum(n) FROM dibs_counts WHERE minute >= ? AND minute < ? GROUP BY queue, kind, name ORDER BY queue, kind, name

-- name: counts_forget
-- Forgets old counters, so many at most.
DELETE FROM dibs_counts WHERE (minute, queue, kind, name) IN
  (SELECT minute, queue, kind, name FROM dibs_counts WHERE minute < ? ORDER BY minute, queue, kind, name LIMIT ?)

-- name: depths
-- Counts tasks by sub-queue and state, from one index.
SELECT l.queue, l.kind, t.state, count(*), min(t.run_at) FROM dibs_tasks t JOIN dibs_subqueues l ON l.id = t.subqueue GROUP BY t.subqueue, t.state

-- The statements of the queue, each under its name. A partial index is used only where its own condition stands
-- in the query, word for word: hence "state IN (1, 2) AND state = 1". TestQueuePlans checks that each finds its
-- index.

-- name: write_lock
UPDATE dibs_schema SET version = version WHERE false

-- name: lane_id
INSERT INTO dibs_lanes (queue, kind) VALUES (?, ?) ON CONFLICT DO UPDATE SET queue = queue RETURNING id

-- name: lanes
SELECT id, queue, kind FROM dibs_lanes WHERE id >= ? ORDER BY id LIMIT ?

-- name: lanes_of
SELECT id, queue, kind FROM dibs_lanes INDEXED BY dibs_lanes_of WHERE queue = ? AND id >= ? ORDER BY id LIMIT ?

-- name: lane_known
SELECT id, queue, kind FROM dibs_lanes WHERE queue = ? AND kind = ?

-- name: last_lane
SELECT coalesce(max(id), 0) FROM dibs_lanes

-- name: task_columns
SELECT t.id, t.lane, l.queue, l.kind, t.state, t.class, t.rank, t.priority, t.run_at, t.enqueued, t.expires, t.started, t.ended,
  t.attempts, t.granted, t.crashes, t.snoozes, t.begun, t.displaced, t.token, t.worker, t.completed,
  t.ukey, t.window, coalesce(t.limited, 0), t.args, t.cold, t.reason, t.stop
FROM dibs_tasks t JOIN dibs_lanes l ON l.id = t.lane

-- name: task_insert
INSERT INTO dibs_tasks (lane, state, class, rank, priority, run_at, enqueued, expires, started, ended, attempts, granted, crashes, snoozes,
  begun, displaced, token, worker, completed, ukey, window, limited, line, args, cold, reason, stop)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?, ?, ?, ?) RETURNING id

-- name: task_update
UPDATE dibs_tasks SET lane = ?, state = ?, class = ?, rank = ?, priority = ?, run_at = ?, enqueued = ?, expires = ?, started = ?, ended = ?,
  attempts = ?, granted = ?, crashes = ?, snoozes = ?, begun = ?, displaced = ?, token = ?, worker = ?, completed = ?,
  ukey = ?, window = ?, limited = nullif(?, 0), line = ?, args = ?, cold = ?, reason = ?, stop = ?
WHERE id = ?

-- name: task_delete
DELETE FROM dibs_tasks WHERE id = ?

-- name: attempts_delete
DELETE FROM dibs_attempts WHERE task = ?

-- name: attempt_add
INSERT INTO dibs_attempts (task, i, attempt) SELECT ?1, coalesce(max(i), 0) + 1, ?2 FROM dibs_attempts WHERE task = ?1

-- name: attempts
SELECT attempt FROM dibs_attempts WHERE task = ? ORDER BY i

-- name: ready
SELECT id, rank FROM dibs_tasks WHERE state = 1 AND lane = ? AND class = ? ORDER BY rank, id LIMIT ?

-- name: due
SELECT id FROM dibs_tasks WHERE state IN (0, 4) AND lane = ? AND run_at <= ? ORDER BY run_at, id LIMIT ?

-- name: next_due
SELECT coalesce(min(run_at), 0) FROM dibs_tasks INDEXED BY dibs_tasks_due WHERE state IN (0, 4) AND lane = ?

-- name: limit_declare
INSERT INTO dibs_limits (hash, key, max) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET key = key
RETURNING id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3)

-- name: limit_get
SELECT id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3) FROM dibs_limits WHERE id = ?

-- name: limit_find
SELECT id, key, max, declared, token, round_at, round_end, (SELECT count(*) FROM dibs_tasks WHERE limited = dibs_limits.id AND limited IS NOT NULL AND state = 3) FROM dibs_limits WHERE hash = ?

-- name: limit_given
UPDATE dibs_limits SET token = ? WHERE id = ?

-- name: limit_declared
UPDATE dibs_limits SET max = ?, declared = ? WHERE id = ?

-- name: limit_said
UPDATE dibs_limits SET max = ?, declared = ?, said_by = ?, said = ? WHERE id = ?

-- name: limits_said
SELECT hash, key, max, declared, said_by, said FROM dibs_limits WHERE declared > 0 ORDER BY key, hash LIMIT 1000

-- name: line_lanes
WITH RECURSIVE l (lane) AS (
  SELECT min(lane) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND lane >= ?2
  UNION ALL
  SELECT (SELECT min(lane) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND lane > l.lane)
  FROM l WHERE l.lane IS NOT NULL LIMIT ?3),
o (lane) AS (
  SELECT min(lane) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane >= ?2
  UNION ALL
  SELECT (SELECT min(lane) FROM dibs_tasks WHERE limited = ?1 AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane > o.lane)
  FROM o WHERE o.lane IS NOT NULL LIMIT ?3)
SELECT lane FROM l WHERE lane < ?4 UNION SELECT lane FROM o WHERE lane < ?4 ORDER BY lane LIMIT ?3

-- name: line_count
SELECT count(*) FROM (SELECT 1 FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane = ? LIMIT ?)

-- name: line_last
SELECT id, rank FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane = ? ORDER BY rank DESC, id DESC LIMIT ?

-- name: line_next
SELECT id, rank FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND lane = ? ORDER BY rank, id LIMIT ?

-- name: part_count
SELECT count(*) FROM (SELECT 1 FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane = ? AND (class > 0) = ? LIMIT ?)

-- name: part_last
SELECT id, rank FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 1 AND lane = ? AND (class > 0) = ? ORDER BY rank DESC, id DESC LIMIT ?

-- name: part_next
SELECT id, rank FROM dibs_tasks INDEXED BY dibs_tasks_parts WHERE limited = ? AND limited IS NOT NULL AND line = 1 AND state IN (1, 2) AND state = 2 AND lane = ? AND (class > 0) = ? ORDER BY rank, id LIMIT ?

-- name: state
SELECT state FROM dibs_tasks WHERE id = ?

-- name: set_state
UPDATE dibs_tasks SET state = ? WHERE id = ?

-- name: rivals
SELECT id FROM dibs_tasks INDEXED BY dibs_tasks_rivals WHERE limited = ? AND limited IS NOT NULL AND state IN (1, 2) AND (displaced = 1 OR line = 0)
  AND id > ? AND id < ? ORDER BY id LIMIT ?

-- name: guests
SELECT id FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND state = 3 AND stop = '' LIMIT ?

-- name: limit_round
UPDATE dibs_limits SET round_at = ?, round_end = ? WHERE id = ?

-- name: rounds
SELECT id FROM dibs_limits INDEXED BY dibs_limits_round WHERE round_at >= 0 AND id >= ? ORDER BY id LIMIT ?

-- name: slots
SELECT t.id, l.kind, t.started, t.worker FROM dibs_tasks t JOIN dibs_lanes l ON l.id = t.lane WHERE t.limited = ? AND t.limited IS NOT NULL AND t.state = 3 ORDER BY t.id LIMIT 1000

-- name: blocked
SELECT count(*) FROM dibs_tasks WHERE limited = ? AND limited IS NOT NULL AND state IN (1, 2) AND state = 2

-- name: worker_id
INSERT INTO dibs_workers (key, owner, token) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET key = key RETURNING id

-- name: worker_join
UPDATE dibs_workers SET host = ?, pid = ?, does = ?, slots = ?, since = CASE since WHEN 0 THEN ? ELSE since END, ended = 0 WHERE id = ?

-- name: worker_back
UPDATE dibs_workers SET ended = 0 WHERE id = ? AND ended > 0

-- name: worker_end
UPDATE dibs_workers SET ended = ? WHERE id = ?

-- name: workers_there
SELECT id, key, owner, token, host, pid, does, slots, since FROM dibs_workers INDEXED BY dibs_workers_there WHERE ended = 0 AND id > ? ORDER BY id LIMIT ?

-- name: worker_get
SELECT id, key, owner, token, host, pid, does, slots, since FROM dibs_workers WHERE id = ?

-- name: workers_forget
DELETE FROM dibs_workers WHERE id IN (SELECT id FROM dibs_workers WHERE ended > 0 AND ended < ? LIMIT ?)

-- name: running
SELECT id, token, stop FROM dibs_tasks WHERE state = 3 AND worker = ? ORDER BY id LIMIT ?

-- name: running_count
SELECT count(*) FROM dibs_tasks WHERE state = 3 AND worker = ?

-- name: expired
SELECT id FROM dibs_tasks WHERE expires > 0 AND expires <= ? AND state IN (0, 1, 2, 4) ORDER BY expires LIMIT ?

-- name: windows
SELECT id FROM dibs_tasks WHERE window > 0 AND window <= ? ORDER BY window LIMIT ?

-- name: old
SELECT id FROM dibs_tasks WHERE state = ? AND state >= 5 AND ended < ? AND window = 0 ORDER BY ended LIMIT ?

-- name: pauses
SELECT queue, kind, since, until, by, why FROM dibs_pauses WHERE until = 0 OR until > ? ORDER BY queue, kind

-- name: pauses_of
SELECT count(*) FROM dibs_pauses WHERE queue IN ('', ?1) AND kind IN ('', ?2) AND (until = 0 OR until > ?3)

-- name: pause
INSERT OR REPLACE INTO dibs_pauses (queue, kind, since, until, by, why) VALUES (?, ?, ?, ?, ?, ?)

-- name: resume
DELETE FROM dibs_pauses WHERE queue = ? AND kind = ? RETURNING until

-- name: rate_set
INSERT INTO dibs_rates (kind, each, burst, full) VALUES (?, ?, ?, 0) ON CONFLICT DO UPDATE SET each = excluded.each, burst = excluded.burst

-- name: rate_delete
DELETE FROM dibs_rates WHERE kind = ?

-- name: rates
SELECT kind, each, burst, full FROM dibs_rates

-- name: rate_of
SELECT kind, each, burst, full FROM dibs_rates WHERE kind = ?

-- name: rate_use
UPDATE dibs_rates SET full = ? WHERE kind = ?

-- name: count
INSERT INTO dibs_counts (minute, queue, kind, name, n) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: counts
SELECT queue, kind, name, sum(n) FROM dibs_counts WHERE minute >= ? AND minute < ? GROUP BY queue, kind, name ORDER BY queue, kind, name

-- name: counts_forget
DELETE FROM dibs_counts WHERE (minute, queue, kind, name) IN
  (SELECT minute, queue, kind, name FROM dibs_counts WHERE minute < ? ORDER BY minute, queue, kind, name LIMIT ?)

-- name: depths
SELECT l.queue, l.kind, t.state, count(*), min(t.run_at) FROM dibs_tasks t JOIN dibs_lanes l ON l.id = t.lane GROUP BY t.lane, t.state

-- name: append
-- Adds an event. An id that is there already changes nothing, so a repeated append adds nothing twice.
INSERT INTO dibs_events (ns, at, id, kind, lease_key, job, tick, run_id, host, reason)
VALUES (?, IF(? = 0, @dibs_now, ?), ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE kind = dibs_events.kind;

-- name: events
-- Events, the newest first. Instants are [from, to), and the limit bounds the page.
SELECT id, at, kind, lease_key, job, tick, run_id, COALESCE(host, ''), COALESCE(reason, '')
FROM dibs_events
WHERE ns = ? AND (? = '' OR job = ?) AND (? = '' OR run_id = ?) AND at >= ? AND at < ?
ORDER BY at DESC, id DESC LIMIT ?;

-- name: tick-history
-- Ticks of all jobs, the latest first. Equal instants come in the reverse order of their jobs, so that one index
-- serves the order.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (recent)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND t.at >= ? AND t.at < ?
ORDER BY t.at DESC, t.job DESC LIMIT ?;

-- name: ranges-reaching
-- Ranges that began before an instant and reach it. They are found among those that end after it: range_end is NULL
-- for single ticks.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (ranges)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND t.range_end >= ? AND t.at < ?
ORDER BY t.at DESC, t.job DESC LIMIT ?;

-- name: reach
-- The beginning of a job's last row before an instant. No two rows of a job cover the same instant, so only that one
-- can reach it. It is a SELECT of its own, which waits for no lock; one within SET does.
SELECT COALESCE(MAX(at), ?) INTO @dibs_reach FROM dibs_ticks FORCE INDEX (PRIMARY) WHERE ns = ? AND job = ? AND at < ?;

-- name: tick-history-of
-- Ticks of one job from there on.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (PRIMARY)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND t.job = ? AND t.at >= @dibs_reach AND GREATEST(t.at, t.through) >= ? AND t.at < ?
ORDER BY t.at DESC LIMIT ?;

-- name: latest-ticks
-- The latest ticks of one job.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (PRIMARY)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND t.job = ?
ORDER BY t.at DESC LIMIT ?;

-- name: run-history
-- Runs, the latest start first.
SELECT run_id, job, tick, owner, token, COALESCE(host, ''), pid, COALESCE(command, ''), outcome, COALESCE(reason, ''),
  inferred, started, ended, COALESCE(attempts, ''), COALESCE(cause, '')
FROM dibs_runs
WHERE ns = ? AND (? = '' OR job = ?) AND (? = '' OR run_id = ?) AND started >= ? AND started < ?
ORDER BY started DESC, run_id DESC LIMIT ?;

-- name: output
-- Keeps what a run printed. The last word stands.
REPLACE INTO dibs_outputs (ns, run_id, at, output) VALUES (?, ?, @dibs_now, ?);

-- name: read-output
-- What a run printed.
SELECT LEFT(output, ?) FROM dibs_outputs WHERE ns = ? AND run_id = ?;

-- name: append-run
-- Adds a run that was recorded elsewhere first (H1). A run that is there stays as it is.
INSERT INTO dibs_runs (ns, run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE pid = dibs_runs.pid;

-- name: append-tick
-- Adds a tick that was recorded elsewhere first, of a job that nobody claims here (H1). A later copy replaces an
-- earlier one.
REPLACE INTO dibs_ticks (ns, job, at, through, many, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: pruned
-- Where the last step of pruning ended, among rows that are old and have to stay.
SELECT at, name FROM dibs_pruned WHERE ns = ? AND kind = ?;

-- name: prune-from
-- The next step goes on behind this row.
REPLACE INTO dibs_pruned (ns, kind, at, name) VALUES (?, ?, ?, ?);

-- name: prune-anew
-- The next step begins at the beginning.
DELETE FROM dibs_pruned WHERE ns = ? AND kind = ?;

-- name: old-ticks
-- A page of ticks that were due before an instant, and whether each may go. Ticks above the mark stay: a late server
-- could claim them again (T4).
SELECT t.at, t.job, GREATEST(t.at, t.through) < ? AND t.state = 'closed' AND (j.mark IS NULL OR GREATEST(t.at, t.through) <= j.mark)
FROM dibs_ticks t FORCE INDEX (recent) LEFT JOIN dibs_jobs j ON j.ns = t.ns AND j.name = t.job
WHERE t.ns = ? AND t.at < ? AND (t.at > ? OR t.at = ? AND t.job > ?)
ORDER BY t.at, t.job LIMIT ?;

-- name: prune-ticks
-- Deletes those of them that are still closed.
DELETE t FROM dibs_ticks t FORCE INDEX (PRIMARY) WHERE ns = ? AND (?) AND state = 'closed';

-- name: old-runs
-- A page of runs that started before an instant, and whether each may go. A run starts before it ends, so the index
-- of starts finds the old ones.
SELECT started, run_id, outcome <> '' AND ended < ?
FROM dibs_runs FORCE INDEX (recent)
WHERE ns = ? AND started < ? AND (started > ? OR started = ? AND run_id > ?)
ORDER BY started, run_id LIMIT ?;

-- name: outputs-beyond
-- The runs of a job that have outputs, of those before its newest. STRAIGHT_JOIN: the runs are chosen first.
SELECT r.run_id FROM (SELECT ns, run_id FROM dibs_runs WHERE ns = ? AND job = ? ORDER BY started DESC, run_id DESC LIMIT ? OFFSET ?) r
STRAIGHT_JOIN dibs_outputs o ON o.ns = r.ns AND o.run_id = r.run_id;

-- name: prune-outputs
-- Deletes their outputs.
DELETE o FROM dibs_outputs o FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?);

-- name: prune-runs
-- Deletes runs that are still over.
DELETE r FROM dibs_runs r FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?) AND outcome <> '' AND ended < ?;

-- name: old-events
-- A page of events from before an instant.
SELECT at, id FROM dibs_events WHERE ns = ? AND at < ? ORDER BY at LIMIT ?;

-- name: prune-events
-- Deletes them.
DELETE e FROM dibs_events e FORCE INDEX (PRIMARY) WHERE ns = ? AND (at, id) IN (?);

-- name: append
INSERT INTO dibs_events (ns, at, id, kind, lease_key, job, tick, run_id, host, reason)
VALUES (?, IF(? = 0, @dibs_now, ?), ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE kind = dibs_events.kind;

-- name: events
SELECT id, at, kind, lease_key, job, tick, run_id, COALESCE(host, ''), COALESCE(reason, '')
FROM dibs_events
WHERE ns = ? AND (? = '' OR job = ?) AND (? = '' OR run_id = ?) AND at >= ? AND at < ?
ORDER BY at DESC, id DESC LIMIT ?;

-- name: tick-history
-- Equal instants come in the reverse order of their jobs, so that one index serves the order.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND (? = '' OR t.job = ?) AND (? = '' OR t.run_id = ?) AND GREATEST(t.at, t.through) >= ? AND t.at < ?
ORDER BY t.at DESC, t.job DESC LIMIT ?;

-- name: run-history
SELECT run_id, job, tick, owner, token, COALESCE(host, ''), pid, COALESCE(command, ''), outcome, COALESCE(reason, ''),
  inferred, started, ended, COALESCE(attempts, ''), COALESCE(cause, '')
FROM dibs_runs
WHERE ns = ? AND (? = '' OR job = ?) AND (? = '' OR run_id = ?) AND started >= ? AND started < ?
ORDER BY started DESC, run_id DESC LIMIT ?;

-- name: output
REPLACE INTO dibs_outputs (ns, run_id, at, output) VALUES (?, ?, @dibs_now, ?);

-- name: read-output
SELECT output FROM dibs_outputs WHERE ns = ? AND run_id = ?;

-- name: append-run
INSERT INTO dibs_runs (ns, run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE pid = dibs_runs.pid;

-- name: append-tick
REPLACE INTO dibs_ticks (ns, job, at, through, many, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: old-ticks
-- Ticks above the mark stay: a late server could claim them again.
SELECT t.job, t.at FROM dibs_ticks t LEFT JOIN dibs_jobs j ON j.ns = t.ns AND j.name = t.job
WHERE t.ns = ? AND t.at < ? AND GREATEST(t.at, t.through) < ? AND t.state = 'closed'
  AND (j.mark IS NULL OR GREATEST(t.at, t.through) <= j.mark)
ORDER BY t.at LIMIT ?;

-- name: prune-ticks
DELETE t FROM dibs_ticks t FORCE INDEX (PRIMARY) WHERE ns = ? AND (?) AND state = 'closed';

-- name: old-runs
-- A run starts before it ends: the index of starts finds the old ones.
SELECT run_id FROM dibs_runs WHERE ns = ? AND started < ? AND outcome <> '' AND ended < ? ORDER BY started LIMIT ?;

-- name: outputs-beyond
-- The runs of a job that have outputs, of those before its newest.
SELECT r.run_id FROM (SELECT ns, run_id FROM dibs_runs WHERE ns = ? AND job = ? ORDER BY started DESC, run_id DESC LIMIT ? OFFSET ?) r
STRAIGHT_JOIN dibs_outputs o ON o.ns = r.ns AND o.run_id = r.run_id;

-- name: prune-outputs
DELETE o FROM dibs_outputs o FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?);

-- name: prune-runs
DELETE r FROM dibs_runs r FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?) AND outcome <> '' AND ended < ?;

-- name: old-events
SELECT at, id FROM dibs_events WHERE ns = ? AND at < ? ORDER BY at LIMIT ?;

-- name: prune-events
DELETE e FROM dibs_events e FORCE INDEX (PRIMARY) WHERE ns = ? AND (at, id) IN (?);

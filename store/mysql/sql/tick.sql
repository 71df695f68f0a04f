-- name: claim
-- Claims a tick, or claims and closes it (promise 8). The primary key makes the first claim win for ever: a second
-- one changes nothing. The SELECT yields the row to insert, or none: the lease is live (T1), the request in time
-- (L1), the tick not too far ahead and above the mark (T4), the generation the registered one (T11), no pause (T8).
-- Lease and job are locked by statements before.
INSERT INTO dibs_ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimant, outcome, reason, claimed, ended)
SELECT l.ns, ?, ?, ?, l.lease_key, l.owner, l.token, ?, ?, ?, @dibs_now, IF(? = 'closed', @dibs_now, 0)
FROM dibs_leases l LEFT JOIN dibs_jobs j ON j.ns = l.ns AND j.name = ?
WHERE l.ns = ? AND l.lease_key = ? AND l.owner = ? AND l.token = ? AND l.expires > @dibs_now
  AND @dibs_now <= ? AND ? <= @dibs_now + ?
  AND (? = 1 OR j.mark IS NULL OR j.mark < ?)
  AND (? = 0 OR j.generation = ? AND j.removed = 0)
  AND (? = 'closed' OR COALESCE(j.paused_since, 0) = 0
    OR j.paused_until <> 0 AND @dibs_now >= j.paused_until AND (? < j.paused_since OR ? >= j.paused_until))
ON DUPLICATE KEY UPDATE many = dibs_ticks.many;

-- name: ticks
-- Ticks, and whether the lease of each is live.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (PRIMARY)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > @dibs_now
WHERE t.ns = ? AND (?);

-- name: orphans
-- A page of unfinished ticks by job and instant (T2, T3). Each tells whether its lease is live, so the caller picks
-- the dead ones: a step reads no more rows than it was asked to. open_job is a generated column that is NULL once the
-- tick is closed, so the index has unfinished ticks alone.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (unfinished_by_job)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > ?
WHERE t.ns = ? AND t.open_job >= ? AND (? = '' OR t.open_job < ?) AND (t.open_job > ? OR t.open_job = ? AND t.at > ?)
ORDER BY t.open_job, t.at LIMIT ?;

-- name: owed
-- A page of an application's ticks that may still have to be run (tick.Tick's Owed), the latest first. owed_app is a
-- generated column, NULL for all others.
SELECT t.job, t.at, t.through, t.many, t.state, t.lease_key, t.lease_owner, t.lease_token, COALESCE(t.claimant, ''),
  t.run_id, t.outcome, COALESCE(t.reason, ''), t.inferred, t.reruns, t.claimed, t.started, t.ended, l.ns IS NOT NULL
FROM dibs_ticks t FORCE INDEX (owed)
LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
  AND l.token = t.lease_token AND l.expires > ?
WHERE t.ns = ? AND t.owed_app = ? AND t.at >= ? AND (t.at < ? OR t.at = ? AND t.job < ?)
ORDER BY t.at DESC, t.job DESC LIMIT ?;

-- name: take
-- The state of the tick that may be taken over, or NULL: claimed and lapsed (T2), started and lapsed or lost as a
-- re-run (T3), or never run, with fill (T4). The lease of a closed tick no longer matters. The tick and both leases
-- are locked.
SET @dibs_take = (SELECT t.state FROM dibs_ticks t
  JOIN dibs_leases n ON n.ns = t.ns AND n.lease_key = ? AND n.owner = ? AND n.token = ? AND n.expires > @dibs_now
  LEFT JOIN dibs_leases l ON l.ns = t.ns AND l.lease_key = t.lease_key AND l.owner = t.lease_owner
    AND l.token = t.lease_token AND l.expires > @dibs_now
  WHERE t.ns = ? AND t.job = ? AND t.at = ? AND @dibs_now <= ?
    AND t.lease_key = ? AND t.lease_owner = ? AND t.lease_token = ?
    AND CASE
      WHEN ? = 1 THEN t.state = 'closed' AND t.through = 0 AND t.outcome IN ('missed', 'unavailable', 'skipped')
      WHEN t.state = 'claimed' THEN ? = 0 AND l.ns IS NULL
      WHEN t.state = 'started' THEN ? = 1 AND l.ns IS NULL
      ELSE ? = 1 AND t.outcome IN ('lost', 'crashed', 'canceled') END);

-- name: take-run
-- A run that nobody hears of any more has crashed (T3).
UPDATE dibs_runs SET outcome = 'crashed', inferred = 1, ended = @dibs_now
WHERE ns = ? AND run_id = (SELECT t.run_id FROM dibs_ticks t WHERE t.ns = ? AND t.job = ? AND t.at = ?)
  AND outcome = '' AND @dibs_take = 'started';

-- name: take-tick
-- Hands the tick over. The row forgets its run: what that run still reports concerns the run alone (T3).
UPDATE dibs_ticks SET state = 'claimed', lease_key = ?, lease_owner = ?, lease_token = ?, claimant = ?, run_id = '',
  outcome = '', reason = NULL, inferred = 0, reruns = reruns + ?, claimed = @dibs_now, started = 0, ended = 0
WHERE ns = ? AND job = ? AND at = ? AND @dibs_take IS NOT NULL;

-- name: start-run
-- Inserts a run (T1), if its lease is live and its tick still claimed under the claim's lease. Without a tick the
-- claim is a gate, if there is one: a lease that must be live as well. A repeated start changes nothing.
INSERT INTO dibs_runs (ns, run_id, job, tick, owner, token, host, pid, command, started, attempts, cause)
SELECT l.ns, ?, ?, ?, l.owner, l.token, ?, ?, ?, IF(? = 0, @dibs_now, ?), ?, ?
FROM dibs_leases l
WHERE l.ns = ? AND l.lease_key = ? AND l.owner = ? AND l.token = ? AND l.expires > @dibs_now AND @dibs_now <= ?
  AND IF(? = 0,
    ? = '' OR EXISTS (SELECT 1 FROM dibs_leases g WHERE g.ns = l.ns AND g.lease_key = ? AND g.owner = ? AND g.token = ?
      AND g.expires > @dibs_now),
    EXISTS (SELECT 1 FROM dibs_ticks t WHERE t.ns = l.ns AND t.job = ? AND t.at = ?
      AND t.state = 'claimed' AND t.lease_key = ? AND t.lease_owner = ? AND t.lease_token = ?))
ON DUPLICATE KEY UPDATE pid = dibs_runs.pid;

-- name: start-tick
-- The tick is started only together with the run's row, which is there if the statement before inserted it. So there
-- is at most one unfinished run per tick.
UPDATE dibs_ticks SET state = 'started', lease_key = ?, lease_owner = ?, lease_token = ?, run_id = ?, started = @dibs_now
WHERE ns = ? AND job = ? AND at = ? AND state = 'claimed' AND lease_key = ? AND lease_owner = ? AND lease_token = ?
  AND EXISTS (SELECT 1 FROM dibs_runs r WHERE r.ns = ? AND r.run_id = ? AND r.owner = ? AND r.token = ?
    AND r.job = ? AND r.tick = ? AND r.outcome = '');

-- name: close-run
-- Closes a run, fenced by id, owner and token (T9). The first outcome stands, unless somebody else inferred it and
-- this is the run's own word (T3).
UPDATE dibs_runs SET outcome = ?, reason = ?, attempts = ?, ended = IF(? = 0, @dibs_now, ?), inferred = ?
WHERE ns = ? AND run_id = ? AND owner = ? AND token = ? AND (outcome = '' OR inferred = 1 AND ? = 0);

-- name: close-tick
-- Closes the run's tick with it, if the tick still names this run.
UPDATE dibs_ticks SET state = 'closed', outcome = ?, reason = ?, ended = IF(? = 0, @dibs_now, ?), inferred = ?
WHERE ns = ? AND job = ? AND at = ? AND run_id = ? AND (outcome = '' OR inferred = 1 AND ? = 0)
  AND EXISTS (SELECT 1 FROM dibs_runs r WHERE r.ns = ? AND r.run_id = ? AND r.owner = ? AND r.token = ?
    AND r.outcome = ? AND r.inferred = ?);

-- name: close-claim
-- Closes a claim that ran nothing.
UPDATE dibs_ticks SET state = 'closed', outcome = ?, reason = ?, ended = IF(? = 0, @dibs_now, ?), inferred = ?
WHERE ns = ? AND job = ? AND at = ? AND state = 'claimed' AND run_id = ''
  AND lease_key = ? AND lease_owner = ? AND lease_token = ?;

-- name: runs
-- Some runs by id.
SELECT run_id, job, tick, owner, token, COALESCE(host, ''), pid, COALESCE(command, ''), outcome, COALESCE(reason, ''),
  inferred, started, ended, COALESCE(attempts, ''), COALESCE(cause, '')
FROM dibs_runs WHERE ns = ? AND run_id IN (?);

-- [0] Locks the tick of job $2 at $3. The leases of both sides are locked already (hold.sql).
SELECT at FROM dibs.ticks WHERE ns = $1 AND job = $2::bytea AND at = $3::bigint FOR NO KEY UPDATE;

-- [1] Hands the tick over: from the lease $4 $5 $6 to the live lease $7 $8 $9 of the claimant $10. $11 a re-run, $12
-- not_after (0: no bound), $13 a fill. What may be taken depends on the state:
-- * claimed: its lease has lapsed, so it provably ran nothing (T2). This is no re-run.
-- * started: its lease has lapsed, so it has crashed, which is written on its run here (T3). Only as a re-run.
-- * closed: it was lost, crashed or canceled. Only as a re-run.
-- * with $13: it never ran, and its outcome says so.
--
-- It is one statement under the tick's lock, so of two that take one tick over, one wins. The row forgets its run:
-- what that run still reports concerns the run alone (T3).
WITH old AS MATERIALIZED (
  SELECT t.*, dibs.now_us() AS now
  FROM dibs.tick_rows t
  JOIN dibs.leases l ON l.ns = $1 AND l.key = $7::bytea AND l.owner = $8 AND l.token = $9::bigint AND l.expires > dibs.now_us()
  WHERE t.ns = $1 AND t.job = $2::bytea AND t.at = $3::bigint
    AND t.lease_key = $4::bytea AND t.lease_owner = $5 AND t.lease_token = $6::bigint
    AND ($12::bigint = 0 OR dibs.now_us() <= $12)
    AND CASE
        WHEN $13::bool THEN t.state = 'closed' AND t.through = 0 AND t.outcome IN ('missed', 'unavailable', 'skipped')
        WHEN t.state = 'claimed' THEN NOT $11::bool AND NOT t.live
        WHEN t.state = 'started' THEN $11 AND NOT t.live
        ELSE $11 AND t.outcome IN ('lost', 'crashed', 'canceled')
        END
), crashed AS (
  UPDATE dibs.runs r SET outcome = 'crashed', inferred = true, ended = o.now
  FROM old o
  WHERE o.state = 'started' AND r.ns = o.ns AND r.run_id = o.run_id AND r.outcome = ''
)
UPDATE dibs.ticks t
SET state = 'claimed', lease_key = $7, lease_owner = $8, lease_token = $9, claimant = $10,
    run_id = '', outcome = '', reason = '', inferred = false, reruns = t.reruns + $11::bool::int,
    claimed = o.now, started = 0, ended = 0
FROM old o
WHERE t.ns = o.ns AND t.job = o.job AND t.at = o.at;

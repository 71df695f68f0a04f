-- Closing is one transaction: release the leases (release.sql), then the four statements here. So an outcome and the
-- release of its lease are one atomic operation (T9).
--
-- First: locks the ticks ($2 jobs, $3 instants) in order. Ticks come before runs, as everywhere (see ticks.go).
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[]) AS q(job, at)
), locked AS MATERIALIZED (
  SELECT t.at FROM asked q JOIN dibs.ticks t ON t.ns = q.ns AND t.job = q.job AND t.at = q.at
  ORDER BY t.job, t.at
  FOR NO KEY UPDATE OF t
)
SELECT count(*) FROM locked;

-- Second: closes runs, each fenced by its own id, owner and token (T9), and with it the tick while that still names
-- this run. The first report stands. Only the run's own word replaces an outcome that somebody else inferred (T3). A
-- run whose tick was taken over closes itself alone. Runs are locked in the order of their ids. ended 0 is now.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*, dibs.now_us() AS now
  FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bool[], $8::bigint[], $9::text[])
    AS q(run_id, owner, token, outcome, reason, inferred, ended, attempts)
), locked AS MATERIALIZED (
  SELECT q.*, r.job, r.tick, CASE WHEN q.ended = 0 THEN q.now ELSE q.ended END AS at_end
  FROM asked q
  JOIN dibs.runs r ON r.ns = q.ns AND r.run_id = q.run_id AND r.owner = q.owner AND r.token = q.token
    AND (r.outcome = '' OR r.inferred AND NOT q.inferred)
  ORDER BY r.run_id
  FOR NO KEY UPDATE OF r
), closed AS (
  UPDATE dibs.runs r
  SET outcome = k.outcome, reason = k.reason, inferred = k.inferred, ended = k.at_end, attempts = k.attempts
  FROM locked k
  WHERE r.ns = k.ns AND r.run_id = k.run_id
)
UPDATE dibs.ticks t
SET state = 'closed', outcome = k.outcome, reason = k.reason, inferred = k.inferred, ended = k.at_end
FROM locked k
WHERE t.ns = k.ns AND t.job = k.job AND t.at = k.tick AND t.run_id = k.run_id
  AND (t.outcome = '' OR t.inferred AND NOT k.inferred);

-- Third: closes claims that ran nothing. The tick must still be claimed, without a run, under the lease of the
-- request.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*, dibs.now_us() AS now
  FROM unnest($2::bytea[], $3::bigint[], $4::bytea[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bool[], $10::bigint[])
    AS q(job, at, lease_key, lease_owner, lease_token, outcome, reason, inferred, ended)
)
UPDATE dibs.ticks t
SET state = 'closed', outcome = q.outcome, reason = q.reason, inferred = q.inferred,
    ended = CASE WHEN q.ended = 0 THEN q.now ELSE q.ended END
FROM asked q
WHERE t.ns = q.ns AND t.job = q.job AND t.at = q.at AND t.state = 'claimed' AND t.run_id = ''
  AND t.lease_key = q.lease_key AND t.lease_owner = q.lease_owner AND t.lease_token = q.lease_token;

-- Fourth: reads what each close is answered from: the run with its fence, and the tick.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::text[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS q(run_id, job, at, i)
)
SELECT q.i, dibs.now_us(), coalesce(r.owner, ''), coalesce(r.token, 0), coalesce(r.outcome, ''), coalesce(r.inferred, false),
       t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM asked q
LEFT JOIN dibs.runs r ON r.ns = q.ns AND r.run_id = q.run_id
LEFT JOIN LATERAL (SELECT * FROM dibs.tick_rows x WHERE x.ns = q.ns AND x.job = q.job AND x.at = q.at OFFSET 0) t ON true;

-- A mark cannot pass a claim that is under way: settling waits for this lock, and a claim that
-- waited for the settling sees the mark that it left (rule T4). $2 jobs.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT $1::text AS ns, name FROM unnest($2::bytea[]) name
), locked AS MATERIALIZED (
  SELECT j.name FROM asked q JOIN dibs.jobs j ON j.ns = q.ns AND j.name = q.name
  ORDER BY j.name
  FOR SHARE OF j
)
SELECT count(*) FROM locked;

-- Claims.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[],
              $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bool[])
    AS q(job, at, generation, lease_key, lease_owner, lease_token, claimant, ahead, not_after, outcome, reason, fill)
), timed AS MATERIALIZED (
  SELECT *, dibs.now_us() AS now FROM asked
)
INSERT INTO dibs.ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimant, outcome, reason, claimed, ended)
SELECT t.ns, t.job, t.at, CASE WHEN t.outcome = '' THEN 'claimed' ELSE 'closed' END,
       t.lease_key, t.lease_owner, t.lease_token, t.claimant, t.outcome, t.reason,
       t.now, CASE WHEN t.outcome = '' THEN 0 ELSE t.now END
FROM timed t
JOIN dibs.leases l ON l.ns = t.ns AND l.key = t.lease_key AND l.owner = t.lease_owner AND l.token = t.lease_token
LEFT JOIN dibs.jobs j ON j.ns = t.ns AND j.name = t.job
WHERE l.expires > t.now
  AND (t.not_after = 0 OR t.now <= t.not_after)
  AND t.at <= t.now + t.ahead
  AND (j.mark IS NULL OR t.at > j.mark OR t.fill)
  AND (t.generation = 0 OR j.generation = t.generation AND j.removed = 0)
  AND (t.outcome <> '' OR coalesce(j.paused_since, 0) = 0
    OR j.paused_until <> 0 AND t.now >= j.paused_until AND (t.at < j.paused_since OR t.at >= j.paused_until))
ORDER BY t.job, t.at
ON CONFLICT DO NOTHING;

-- An insert waits where another's of the same tick is under way. If that one came to nothing, the
-- clock that was read before the wait is stale: what was inserted too late is taken back.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS q(job, at, not_after)
)
DELETE FROM dibs.ticks t USING asked q
WHERE t.ns = q.ns AND t.job = q.job AND t.at = q.at AND t.xmin = pg_current_xact_id_if_assigned()::xid
  AND (q.not_after <> 0 AND dibs.now_us() > q.not_after
    OR NOT EXISTS (SELECT FROM dibs.leases l WHERE l.ns = t.ns AND l.key = t.lease_key AND l.expires > dibs.now_us()));

-- What a claim is answered from: the clock, the job, whether the claimant's own lease is live,
-- and the row, where there is one.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::bigint[], $4::bytea[], $5::text[], $6::bigint[]) WITH ORDINALITY
    AS q(job, at, lease_key, lease_owner, lease_token, i)
)
SELECT q.i, dibs.now_us(), coalesce(j.generation, 0), coalesce(j.mark, 0), j.name IS NOT NULL, coalesce(j.removed, 0),
       coalesce(j.paused_since, 0), coalesce(j.paused_until, 0),
       coalesce(l.expires > dibs.now_us(), false),
       t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM asked q
LEFT JOIN dibs.jobs j ON j.ns = q.ns AND j.name = q.job
LEFT JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.lease_key AND l.owner = q.lease_owner AND l.token = q.lease_token
LEFT JOIN LATERAL (SELECT * FROM dibs.tick_rows x WHERE x.ns = q.ns AND x.job = q.job AND x.at = q.at OFFSET 0) t ON true;

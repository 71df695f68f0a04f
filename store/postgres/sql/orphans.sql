-- [0] Unfinished ticks by job and instant (T2, T3): of the names in [$2, $3), after ($4, $5), $6 at most. The page is
-- chosen before the leases are asked, and each row says whether its lease is live. So a step reads no more rows than
-- it was asked for, however many live ticks lie among the dead ones. The expressions repeat the partial index of
-- migration 1 word for word.
WITH page AS MATERIALIZED (
  SELECT * FROM dibs.ticks
  WHERE ns = $1 AND state || '' <> 'closed' AND job || ''::bytea >= $2::bytea AND job || ''::bytea < $3::bytea
    AND (job || ''::bytea, at) > ($4::bytea, $5::bigint)
  ORDER BY job || ''::bytea, at
  LIMIT $6::int
)
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended,
       EXISTS (SELECT FROM dibs.leases l
         WHERE l.ns = t.ns AND l.key = t.lease_key AND l.owner = t.lease_owner AND l.token = t.lease_token
           AND l.expires > dibs.now_us())
FROM page t
ORDER BY t.job, t.at;

-- [1] Ticks of the application $2 (with its slash) that may still have to be run (tick.Tick's Owed, T3), from $3 on,
-- the latest first, after ($4, $5), $6 at most. The condition repeats that of the partial index word for word.
WITH page AS MATERIALIZED (
  SELECT * FROM dibs.ticks
  WHERE ns = $1 AND substring(job from 1 for position('\x2f'::bytea in job)) = $2::bytea
    AND state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window')
    AND at >= $3::bigint AND (at, job) < ($4::bigint, $5::bytea)
  ORDER BY at DESC, job DESC
  LIMIT $6::int
)
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended,
       EXISTS (SELECT FROM dibs.leases l
         WHERE l.ns = t.ns AND l.key = t.lease_key AND l.owner = t.lease_owner AND l.token = t.lease_token
           AND l.expires > dibs.now_us())
FROM page t
ORDER BY t.at DESC, t.job DESC;

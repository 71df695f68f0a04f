-- Starting is four steps of one transaction: lock the leases (hold.sql), then the three statements here. It is
-- acknowledged before the work begins (T1).
--
-- First: locks the ticks ($2 jobs, $3 instants) in order.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[]) AS q(job, at)
), locked AS MATERIALIZED (
  SELECT t.at FROM asked q JOIN dibs.ticks t ON t.ns = q.ns AND t.job = q.job AND t.at = q.at
  ORDER BY t.job, t.at
  FOR NO KEY UPDATE OF t
)
SELECT count(*) FROM locked;

-- Second: starts runs (T1). $2 run ids, $3 jobs, $4 instants (0: a run without a tick), $5 $6 $7 the lease of the
-- claim (of a run without a tick: of its gate, if there is one), $8 $9 $10 the run's lease, $11 not_after, $12 hosts,
-- $13 pids, $14 commands, $15 starts (0: now), $16 causes.
--
-- The run's lease must be live, the request in time (L1), the id new; a gate must be live as well. The tick must
-- still be claimed under the claim's lease. The update of the tick decides: of two runs of one tick it takes one, and
-- only that run is inserted, so there is at most one unfinished run per tick (T3). The clock is read once for each
-- item.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT ON (q.run_id) $1::text AS ns, q.*
  FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bytea[], $9::text[], $10::bigint[],
              $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::bigint[], $16::text[]) WITH ORDINALITY
    AS q(run_id, job, at, claim_key, claim_owner, claim_token, lease_key, lease_owner, lease_token,
         not_after, host, pid, command, started, cause, i)
  ORDER BY q.run_id, q.i
), timed AS MATERIALIZED (
  SELECT *, dibs.now_us() AS now FROM asked
), allowed AS MATERIALIZED (
  SELECT q.*
  FROM timed q
  JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.lease_key AND l.owner = q.lease_owner AND l.token = q.lease_token AND l.expires > q.now
  LEFT JOIN dibs.leases g ON g.ns = q.ns AND g.key = q.claim_key AND g.owner = q.claim_owner AND g.token = q.claim_token AND g.expires > q.now
  LEFT JOIN dibs.runs r ON r.ns = q.ns AND r.run_id = q.run_id
  WHERE (q.not_after = 0 OR q.now <= q.not_after)
    AND (q.at <> 0 OR q.claim_key = '' OR g.key IS NOT NULL)
    AND r.run_id IS NULL
), begun AS (
  UPDATE dibs.ticks t
  SET state = 'started', lease_key = a.lease_key, lease_owner = a.lease_owner, lease_token = a.lease_token,
      run_id = a.run_id, started = a.now
  FROM allowed a
  WHERE a.at <> 0 AND t.ns = a.ns AND t.job = a.job AND t.at = a.at AND t.state = 'claimed'
    AND t.lease_key = a.claim_key AND t.lease_owner = a.claim_owner AND t.lease_token = a.claim_token
  RETURNING a.run_id
)
INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, host, pid, command, started, cause)
SELECT a.ns, a.run_id, a.job, a.at, a.lease_owner, a.lease_token, a.host, a.pid, a.command,
       CASE WHEN a.started = 0 THEN a.now ELSE a.started END, a.cause
FROM allowed a LEFT JOIN begun b ON b.run_id = a.run_id
WHERE a.at = 0 OR b.run_id IS NOT NULL
ORDER BY a.run_id
ON CONFLICT DO NOTHING;

-- Third: reads what each start is answered from: the clock, whether its lease $5 $6 $7 is live, the run $2 with its
-- fence, and the tick ($3 job, $4 instant).
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[]) WITH ORDINALITY
    AS q(run_id, job, at, lease_key, lease_owner, lease_token, i)
)
SELECT q.i, dibs.now_us(), coalesce(l.expires > dibs.now_us(), false),
       coalesce(r.owner, ''), coalesce(r.token, 0), coalesce(r.outcome, ''),
       t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM asked q
LEFT JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.lease_key AND l.owner = q.lease_owner AND l.token = q.lease_token
LEFT JOIN dibs.runs r ON r.ns = q.ns AND r.run_id = q.run_id
LEFT JOIN LATERAL (SELECT * FROM dibs.tick_rows x WHERE x.ns = q.ns AND x.job = q.job AND x.at = q.at OFFSET 0) t ON true;

-- Claiming is five steps of one transaction: lock the leases (hold.sql), then the four statements here.
--
-- First: shares the rows of the jobs $2, in the order of their names (T4). Settling locks the same row FOR NO KEY
-- UPDATE. So a mark cannot pass a claim that is under way, and a claim that waited for the settling sees the mark
-- that it left. Claims of one job do not wait for each other here.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT $1::text AS ns, name FROM unnest($2::bytea[]) name
), locked AS MATERIALIZED (
  SELECT j.name FROM asked q JOIN dibs.jobs j ON j.ns = q.ns AND j.name = q.name
  ORDER BY j.name
  FOR SHARE OF j
)
SELECT count(*) FROM locked;

-- Second: inserts the claims. The primary key (job, instant) decides: the first row wins for ever (promise 8), and ON
-- CONFLICT DO NOTHING makes a lost race no error. An item with an outcome is claimed and closed in one row.
--
-- Each condition of the WHERE is a reason to refuse. In order: the claimant's lease has lapsed (T1), the request is
-- late (L1), the tick lies further ahead than allowed, it is at or below the mark (T4, unless the claim fills a
-- settled gap), the definition is another one (T11), the job is paused (T8). No row says which one it was: the answer
-- is worked out afterwards, by tick.JudgeClaim from the facts that the fourth statement reads. The clock is read once
-- for each item. Items are inserted in the order of (job, instant), so that two batches cannot deadlock.
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

-- Third: takes back what was inserted too late. An insert waits while another transaction inserts the same tick. If
-- that one is rolled back, ours goes on with a clock that was read before the wait. The lease and not_after are
-- judged again here, by the clock of now (L1). xmin is this very transaction, so only rows of the statement before
-- are deleted.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS q(job, at, not_after)
)
DELETE FROM dibs.ticks t USING asked q
WHERE t.ns = q.ns AND t.job = q.job AND t.at = q.at AND t.xmin = pg_current_xact_id_if_assigned()::xid
  AND (q.not_after <> 0 AND dibs.now_us() > q.not_after
    OR NOT EXISTS (SELECT FROM dibs.leases l WHERE l.ns = t.ns AND l.key = t.lease_key AND l.expires > dibs.now_us()));

-- Fourth: reads what each claim is answered from. These are the clock, the job, whether the claimant's own lease is
-- live, and the tick's row if there is one. i is the item's place in the batch. Here and in start.sql and close.sql
-- the tick is looked up in a LATERAL subquery with OFFSET 0: that keeps the planner from joining the whole view
-- first.
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

-- Adds events: $2 ids, then their columns. An instant of 0 is now.
INSERT INTO dibs.events (ns, id, at, kind, key, job, tick, run_id, host, reason)
SELECT $1, q.id, CASE WHEN q.at = 0 THEN dibs.now_us() ELSE q.at END, q.kind, q.key, q.job, q.tick, q.run_id, q.host, q.reason
FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::text[], $9::text[], $10::text[])
  AS q(id, at, kind, key, job, tick, run_id, host, reason)
ON CONFLICT DO NOTHING;

-- Events, newest first. In all selections: [from, to) are the two before the last, and that is the limit.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns || '' = $1 AND at >= $2::bigint AND at < $3::bigint
ORDER BY at DESC, id DESC
LIMIT $4::int;

-- Ticks of all jobs, the latest first. Where they do not fill the page, the ranges follow that began before $2 and
-- reach into it: of each job one at most. Their namespace and instant are said as no index has them: each other one
-- would be walked.
WITH page AS MATERIALIZED (
  SELECT * FROM dibs.ticks
  WHERE ns || '' = $1 AND at + 0 >= $2::bigint AND at + 0 < $3::bigint
  ORDER BY at + 0 DESC, job DESC
  LIMIT $4::int
), reaching AS MATERIALIZED (
  SELECT * FROM dibs.ticks
  WHERE int8range(at, greatest(at, through), '[]') @> $2::bigint AND through <> 0 AND at <> $2
    AND ns || '' || '' = $1 AND (SELECT count(*) FROM page) < $4
  ORDER BY at DESC, job DESC
  LIMIT $4::int
)
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended,
       EXISTS (SELECT FROM dibs.leases l
         WHERE l.ns = t.ns AND l.key = t.lease_key AND l.owner = t.lease_owner AND l.token = t.lease_token
           AND l.expires > dibs.now_us())
FROM (SELECT * FROM page UNION ALL SELECT * FROM reaching) t
ORDER BY t.at DESC, t.job
LIMIT $4::int;

-- Runs, the latest start first.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns || '' = $1 AND started >= $2::bigint AND started < $3::bigint
ORDER BY started DESC, run_id DESC
LIMIT $4::int;

-- Adds runs that were recorded elsewhere first.
INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
SELECT $1, q.*
FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::text[],
            $10::text[], $11::text[], $12::bool[], $13::bigint[], $14::bigint[], $15::text[], $16::text[])
  AS q(run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
ORDER BY q.run_id
ON CONFLICT DO NOTHING;

-- Adds ticks that were recorded elsewhere first, of jobs that nobody claims here.
INSERT INTO dibs.ticks (ns, job, at, through, count, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
SELECT $1, q.*
FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::bool[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
  AS q(job, at, through, count, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
ORDER BY q.job, q.at
ON CONFLICT (job, ns, at) DO UPDATE SET through = excluded.through, count = excluded.count, state = excluded.state,
  claimant = excluded.claimant, run_id = excluded.run_id, outcome = excluded.outcome, reason = excluded.reason,
  inferred = excluded.inferred, reruns = excluded.reruns, claimed = excluded.claimed, started = excluded.started, ended = excluded.ended;

-- Ticks of the job $2, which is never empty: by its key, and by none of the others' rows. No two rows of a job cover
-- the same instant, so of those that begin before $3 only the last can reach into it.
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM dibs.tick_rows t
WHERE t.ns = $1 AND t.job = $2::bytea
  AND t.at >= (SELECT coalesce(max(p.at), $3::bigint) FROM dibs.ticks p WHERE p.ns = $1 AND p.job = $2 AND p.at < $3)
  AND greatest(t.at, t.through) >= $3 AND t.at < $4::bigint
ORDER BY t.at DESC
LIMIT $5::int;

-- The latest runs of each of the jobs $2, $3 at most of each.
SELECT q.i, r.run_id, r.job, r.tick, r.owner, r.token, r.host, r.pid, r.command, r.outcome, r.reason, r.inferred, r.started, r.ended, r.attempts, r.cause
FROM unnest($2::bytea[]) WITH ORDINALITY AS q(job, i)
CROSS JOIN LATERAL (
  SELECT x.* FROM dibs.runs x WHERE x.ns = $1 AND x.job = q.job ORDER BY x.started DESC, x.run_id DESC LIMIT $3::int
) r
ORDER BY q.i, r.started DESC, r.run_id DESC;

-- Events of the job $2.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns = $1 AND job = $2::bytea AND job <> '' AND at >= $3::bigint AND at < $4::bigint
ORDER BY at DESC, id DESC
LIMIT $5::int;

-- Events of the run $2, of any job or of $3.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns = $1 AND run_id = $2::text AND run_id <> '' AND ($3::bytea = '' OR job = $3) AND at + 0 >= $4::bigint AND at + 0 < $5::bigint
ORDER BY at DESC, id DESC
LIMIT $6::int;

-- Runs of the job $2.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns = $1 AND job = $2::bytea AND started >= $3::bigint AND started < $4::bigint
ORDER BY started DESC, run_id DESC
LIMIT $5::int;

-- The run $2, of any job or of $3.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns = $1 AND run_id = $2::text AND ($3::bytea = '' OR job = $3) AND started + 0 >= $4::bigint AND started + 0 < $5::bigint
LIMIT $6::int;

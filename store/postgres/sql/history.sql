-- Adds events: $2 ids, then their columns. An instant of 0 is now.
INSERT INTO dibs.events (ns, id, at, kind, key, job, tick, run_id, host, reason)
SELECT $1, q.id, CASE WHEN q.at = 0 THEN dibs.now_us() ELSE q.at END, q.kind, q.key, q.job, q.tick, q.run_id, q.host, q.reason
FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::text[], $9::text[], $10::text[])
  AS q(id, at, kind, key, job, tick, run_id, host, reason)
ON CONFLICT DO NOTHING;

-- Events, newest first. In all selections: $2 job, $3 run (empty: all), [$4, $5) (0: unbounded), $6 limit.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns = $1 AND ($2::bytea = '' OR job = $2) AND ($3::text = '' OR run_id = $3)
  AND at >= $4::bigint AND ($5::bigint = 0 OR at < $5)
ORDER BY at DESC, id DESC
LIMIT $6::int;

-- Ticks, the latest first; a range counts if any of it lies inside.
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM dibs.tick_rows t
WHERE t.ns = $1 AND ($2::bytea = '' OR t.job = $2)
  AND greatest(t.at, t.through) >= $3::bigint AND ($4::bigint = 0 OR t.at < $4)
ORDER BY t.at DESC, t.job
LIMIT $5::int;

-- Runs, the latest start first.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns = $1 AND ($2::bytea = '' OR job = $2) AND ($3::text = '' OR run_id = $3)
  AND started >= $4::bigint AND ($5::bigint = 0 OR started < $5)
ORDER BY started DESC, run_id DESC
LIMIT $6::int;

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
ON CONFLICT (job, at, ns) DO UPDATE SET through = excluded.through, count = excluded.count, state = excluded.state,
  claimant = excluded.claimant, run_id = excluded.run_id, outcome = excluded.outcome, reason = excluded.reason,
  inferred = excluded.inferred, reruns = excluded.reruns, claimed = excluded.claimed, started = excluded.started, ended = excluded.ended;

-- Ticks of the job $2, which is never empty: by its key, and by none of the others' rows. No two rows of a job cover the
-- same instant, so of those that begin before $3 only the last can reach into it.
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM dibs.tick_rows t
WHERE t.ns = $1 AND t.job = $2::bytea
  AND t.at >= (SELECT coalesce(max(p.at), $3::bigint) FROM dibs.ticks p WHERE p.ns = $1 AND p.job = $2 AND p.at < $3)
  AND greatest(t.at, t.through) >= $3 AND ($4::bigint = 0 OR t.at < $4)
ORDER BY t.at DESC
LIMIT $5::int;

-- The latest runs of each of the jobs $2, $3 at most of each.
SELECT q.i, r.run_id, r.job, r.tick, r.owner, r.token, r.host, r.pid, r.command, r.outcome, r.reason, r.inferred, r.started, r.ended, r.attempts, r.cause
FROM unnest($2::bytea[]) WITH ORDINALITY AS q(job, i)
CROSS JOIN LATERAL (
  SELECT x.* FROM dibs.runs x WHERE x.ns = $1 AND x.job = q.job ORDER BY x.started DESC, x.run_id DESC LIMIT $3::int
) r
ORDER BY q.i, r.started DESC, r.run_id DESC;

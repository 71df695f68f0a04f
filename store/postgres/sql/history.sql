-- [0] Appends events: $2 ids, then their columns. An instant of 0 is now. An id that is there already changes
-- nothing, so an append that is repeated after a lost answer adds nothing twice.
INSERT INTO dibs.events (ns, id, at, kind, key, job, tick, run_id, host, reason)
SELECT $1, q.id, CASE WHEN q.at = 0 THEN dibs.now_us() ELSE q.at END, q.kind, q.key, q.job, q.tick, q.run_id, q.host, q.reason
FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[], $8::text[], $9::text[], $10::text[])
  AS q(id, at, kind, key, job, tick, run_id, host, reason)
ON CONFLICT DO NOTHING;

-- [1] Events of all jobs, the newest first. In this and all selections below, the two arguments before the last are
-- the instants [from, to), and the last is the limit, so no statement reads more than a page. `ns || ''` is the
-- expression of an index that only these pages can use: see migration 1.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns || '' = $1 AND at >= $2::bigint AND at < $3::bigint
ORDER BY at DESC, id DESC
LIMIT $4::int;

-- [2] Ticks of all jobs, the latest first. A range row counts if any part of it lies in [from, to). If the page is
-- not full, the ranges that began before $2 and reach into it follow, of each job one at most; a GiST index finds
-- them. `ns || '' || ''` and `at <> $2` match no index: any other index would be walked for these few rows.
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

-- [3] Runs of all jobs, the latest start first.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns || '' = $1 AND started >= $2::bigint AND started < $3::bigint
ORDER BY started DESC, run_id DESC
LIMIT $4::int;

-- [4] Appends runs that were recorded elsewhere first: a host's own jobs (H1). A run that is there stays as it is.
INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
SELECT $1, q.*
FROM unnest($2::text[], $3::bytea[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::text[],
            $10::text[], $11::text[], $12::bool[], $13::bigint[], $14::bigint[], $15::text[], $16::text[])
  AS q(run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause)
ORDER BY q.run_id
ON CONFLICT DO NOTHING;

-- [5] Appends ticks that were recorded elsewhere first, of jobs that nobody claims here (H1). A later copy replaces
-- an earlier one, so the mirror may send a tick again. The caller sends no tick twice in one statement.
INSERT INTO dibs.ticks (ns, job, at, through, count, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
SELECT $1, q.*
FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::bool[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
  AS q(job, at, through, count, state, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
ORDER BY q.job, q.at
ON CONFLICT (job, ns, at) DO UPDATE SET through = excluded.through, count = excluded.count, state = excluded.state,
  claimant = excluded.claimant, run_id = excluded.run_id, outcome = excluded.outcome, reason = excluded.reason,
  inferred = excluded.inferred, reruns = excluded.reruns, claimed = excluded.claimed, started = excluded.started, ended = excluded.ended;

-- [6] Ticks of the job $2, which is never empty, by its key: the rows of other jobs are not read. No two rows of a
-- job cover the same instant, so of those that begin before $3 only the last can reach into [from, to).
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM dibs.tick_rows t
WHERE t.ns = $1 AND t.job = $2::bytea
  AND t.at >= (SELECT coalesce(max(p.at), $3::bigint) FROM dibs.ticks p WHERE p.ns = $1 AND p.job = $2 AND p.at < $3)
  AND greatest(t.at, t.through) >= $3 AND t.at < $4::bigint
ORDER BY t.at DESC
LIMIT $5::int;

-- [7] The latest runs of each of the jobs $2, $3 at most of each. LATERAL makes it one short index scan for each job,
-- however many runs a job has.
SELECT q.i, r.run_id, r.job, r.tick, r.owner, r.token, r.host, r.pid, r.command, r.outcome, r.reason, r.inferred, r.started, r.ended, r.attempts, r.cause
FROM unnest($2::bytea[]) WITH ORDINALITY AS q(job, i)
CROSS JOIN LATERAL (
  SELECT x.* FROM dibs.runs x WHERE x.ns = $1 AND x.job = q.job ORDER BY x.started DESC, x.run_id DESC LIMIT $3::int
) r
ORDER BY q.i, r.started DESC, r.run_id DESC;

-- [8] Events of the job $2. `job <> ''` repeats the condition of the partial index, else the planner cannot use it.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns = $1 AND job = $2::bytea AND job <> '' AND at >= $3::bigint AND at < $4::bigint
ORDER BY at DESC, id DESC
LIMIT $5::int;

-- [9] Events of the run $2, of any job or of $3. `at + 0` keeps the index of instants out: the index of runs finds
-- them.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs.events
WHERE ns = $1 AND run_id = $2::text AND run_id <> '' AND ($3::bytea = '' OR job = $3) AND at + 0 >= $4::bigint AND at + 0 < $5::bigint
ORDER BY at DESC, id DESC
LIMIT $6::int;

-- [10] Runs of the job $2.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns = $1 AND job = $2::bytea AND started >= $3::bigint AND started < $4::bigint
ORDER BY started DESC, run_id DESC
LIMIT $5::int;

-- [11] The run $2, of any job or of $3. `started + 0`: by its primary key, and not by the index of starts.
SELECT run_id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, cause
FROM dibs.runs
WHERE ns = $1 AND run_id = $2::text AND ($3::bytea = '' OR job = $3) AND started + 0 >= $4::bigint AND started + 0 < $5::bigint
LIMIT $6::int;

-- [12] The latest ticks of each of the jobs $2, $3 at most of each, as in [7].
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM unnest($2::bytea[]) AS q(job)
CROSS JOIN LATERAL (
  SELECT x.* FROM dibs.tick_rows x WHERE x.ns = $1 AND x.job = q.job ORDER BY x.at DESC LIMIT $3::int
) t
ORDER BY t.job, t.at DESC;

-- [0] Locks the job $2. It waits for every claim of the job that is under way, since claims share the row
-- (claim.sql), and no claim begins before the transaction ends (T4).
SELECT name FROM dibs.jobs WHERE ns = $1 AND name = $2::bytea FOR NO KEY UPDATE;

-- [1] Settles ticks (T4): inserts rows of outcomes and raises the mark from $3 to $4, in one step. $5 instants, $6
-- last instants of ranges (0: a single tick), $7 counts, $8 outcomes, $9 reasons, $10 inferred, $11 ended (0: now).
--
-- It does nothing if the mark is no longer $3, or the definition no longer of generation $12 (0: any). The mark stops
-- before the first tick that cannot be settled yet:
-- * an unfinished tick above the mark;
-- * a range that would cover a tick with a row of its own, which would then have two outcomes;
-- * a range that the mark would cut in two. Lowering the mark to its beginning may cut an earlier range, and so on:
--   hence the recursion, else no row would account for what lies between.
--
-- The odd expressions on ns, job and state match the partial index of migration 1, and OFFSET 0 keeps the probe of
-- each range a probe. Returns the clock if it settled, else no row.
WITH RECURSIVE job AS MATERIALIZED (
  SELECT ns, name, dibs.now_us() AS now FROM dibs.jobs WHERE ns = $1 AND name = $2::bytea AND mark = $3::bigint AND $12::bigint IN (0, generation)
), rows AS MATERIALIZED (
  SELECT *, greatest(at, through) AS last
  FROM unnest($5::bigint[], $6::bigint[], $7::int[], $8::text[], $9::text[], $10::bool[], $11::bigint[])
    AS q(at, through, count, outcome, reason, inferred, ended)
), first AS MATERIALIZED (
  SELECT least($4::bigint,
    (SELECT min(at) - 1 FROM dibs.ticks WHERE ns = $1 AND job || ''::bytea = $2 AND state || '' <> 'closed' AND at > $3),
    (SELECT min(r.at) - 1 FROM rows r WHERE r.through <> 0 AND EXISTS (
       SELECT FROM dibs.ticks t WHERE t.ns = $1 AND t.job = $2 AND t.at BETWEEN r.at AND r.through OFFSET 0))) AS upto
), lowered AS (
  SELECT upto FROM first
  UNION ALL
  SELECT cut.at - 1
  FROM lowered l CROSS JOIN LATERAL (SELECT min(r.at) AS at FROM rows r WHERE r.at <= l.upto AND r.last > l.upto) cut
  WHERE cut.at IS NOT NULL
), until AS MATERIALIZED (
  SELECT min(upto) AS upto FROM lowered
), inserted AS (
  INSERT INTO dibs.ticks (ns, job, at, through, count, state, outcome, reason, inferred, ended)
  SELECT $1, job.name, r.at, r.through, r.count, 'closed', r.outcome, r.reason, r.inferred,
         CASE WHEN r.ended = 0 THEN job.now ELSE r.ended END
  FROM rows r, job, until
  WHERE r.last <= until.upto
  ORDER BY r.at
  ON CONFLICT DO NOTHING
)
UPDATE dibs.jobs j SET mark = greatest(j.mark, until.upto)
FROM job, until
WHERE j.ns = job.ns AND j.name = job.name
RETURNING job.now;

-- [2] The clock, where nothing was done.
SELECT dibs.now_us();

-- [3] Locks the range row of job $2 at $3, for a split.
SELECT at FROM dibs.ticks WHERE ns = $1 AND job = $2::bytea AND at = $3::bigint FOR NO KEY UPDATE;

-- [4] Splits that row into the parts $6 at, $7 through, $8 count, if it still goes to $4 and counts $5. The first
-- part keeps the row's place; the others are inserted. So a tick within a settled range gets a row of its own, and
-- can be run after all (T3). Returns the clock if it split, else no row.
WITH whole AS MATERIALIZED (
  SELECT * FROM dibs.ticks
  WHERE ns = $1 AND job = $2::bytea AND at = $3::bigint AND through <> 0 AND through = $4::bigint AND count = $5::int
), parts AS MATERIALIZED (
  SELECT * FROM unnest($6::bigint[], $7::bigint[], $8::int[]) AS q(at, through, count)
), inserted AS (
  INSERT INTO dibs.ticks (ns, job, at, through, count, state, outcome, reason, inferred, ended)
  SELECT w.ns, w.job, p.at, p.through, p.count, w.state, w.outcome, w.reason, w.inferred, w.ended
  FROM whole w, parts p
  WHERE p.at <> w.at
  ORDER BY p.at
  ON CONFLICT DO NOTHING
), first AS MATERIALIZED (
  SELECT w.ns, w.job, p.* FROM whole w JOIN parts p ON p.at = w.at
)
UPDATE dibs.ticks t SET through = f.through, count = f.count
FROM first f
WHERE t.ns = f.ns AND t.job = f.job AND t.at = f.at
RETURNING dibs.now_us();

-- [5] Takes back what ticks got while this clock was ahead (L12): deletes the rows $5 at, $6 through that begin after
-- $4, and lowers the mark from $3 to $4. $4 lies at most $7 before now, or is the mark itself, which then stays.
--
-- It does nothing unless each row is as it was read, and is settled or Foreseen (tick.Tick): written for an instant
-- to come, and never run. The rows are locked by [6] before, so what this statement sees is how they stand. A pause
-- whose beginning or end lies ahead of the clock is brought back too. Returns the clock if it did so, else no row.
WITH job AS MATERIALIZED (
  SELECT ns, name, now FROM dibs.jobs, (SELECT dibs.now_us() AS now) clock
  WHERE ns = $1 AND name = $2::bytea AND mark = $3::bigint
    AND ($4::bigint = mark OR mark > now AND $4 < mark AND $4 >= now - $7::bigint)
), asked AS MATERIALIZED (
  SELECT $1::text AS ns, $2::bytea AS job, q.* FROM unnest($5::bigint[], $6::bigint[]) AS q(at, through)
), same AS MATERIALIZED (
  SELECT t.at
  FROM asked q CROSS JOIN job
  JOIN dibs.ticks t ON t.ns = q.ns AND t.job = q.job AND t.at = q.at AND t.through = q.through
  WHERE q.at > $4 AND t.state = 'closed' AND (t.claimed = 0
    OR t.ended > job.now AND t.run_id = '' AND t.reruns = 0
      AND (t.outcome IN ('missed', 'paused', 'unavailable') OR t.outcome = 'skipped' AND t.reason = 'window'))
), unchanged AS MATERIALIZED (
  SELECT job.* FROM job WHERE (SELECT count(*) FROM same) = (SELECT count(*) FROM asked)
), deleted AS (
  DELETE FROM dibs.ticks t
  USING unchanged, asked q
  WHERE t.ns = q.ns AND t.job = q.job AND t.at = q.at
)
UPDATE dibs.jobs j
SET mark = $4::bigint, since = least(j.since, $4::bigint + 1),
    paused_since = CASE
      WHEN j.paused_until = 0 THEN least(j.paused_since, CASE WHEN j.mark > $4 THEN $4::bigint + 1 ELSE u.now END)
      WHEN j.paused_resumed AND j.paused_until > u.now THEN least(j.paused_since, u.now)
      ELSE j.paused_since END,
    paused_until = CASE WHEN j.paused_resumed THEN least(j.paused_until, u.now) ELSE j.paused_until END
FROM unchanged u
WHERE j.ns = u.ns AND j.name = u.name
RETURNING u.now;

-- [6] Locks the rows of job $2 at $3 that [5] is to delete, in the order of their instants.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, $2::bytea AS job, at FROM unnest($3::bigint[]) at
)
SELECT t.at FROM asked q JOIN dibs.ticks t ON t.ns = q.ns AND t.job = q.job AND t.at = q.at
ORDER BY t.at
FOR UPDATE OF t;

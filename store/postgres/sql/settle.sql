-- Waits for every claim of job $2 that is under way; none begins before this is committed.
SELECT name FROM dibs.jobs WHERE ns = $1 AND name = $2::bytea FOR NO KEY UPDATE;

-- Inserts rows and raises the mark from $3 to $4, or to just before the first tick that cannot be
-- settled yet: one above the mark that is unfinished, or a range that would cover a tick with a row of its own,
-- which would then have two outcomes, or that the mark would cut in two. That may lower the mark into another range,
-- which begins earlier, and so on: else no row would account for what lies between. Nothing, if the definition is no
-- longer of generation $12 (0: of any).
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

SELECT dibs.now_us();

-- Locks the range row ($2 job, $3 at).
SELECT at FROM dibs.ticks WHERE ns = $1 AND job = $2::bytea AND at = $3::bigint FOR NO KEY UPDATE;

-- Splits it into the parts $6 at, $7 through, $8 count, of which the first keeps its place, if it still
-- goes to $4 and counts $5.
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

-- Takes back what ticks got ahead of this clock: deletes the rows $5 at, $6 through that begin after $4, and lowers
-- the mark from $3 to $4, which lies at most $7 before now, unless it stays. Nothing, unless all rows are as they were
-- read: settled, or tick.Tick's Foreseen. They are locked, so that what this sees is how they stand.
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

-- Locks the rows ($2 job, $3 at) that are to be taken back.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, $2::bytea AS job, at FROM unnest($3::bigint[]) at
)
SELECT t.at FROM asked q JOIN dibs.ticks t ON t.ns = q.ns AND t.job = q.job AND t.at = q.at
ORDER BY t.at
FOR UPDATE OF t;

-- name: jobs
-- Some jobs by name. Of a definition they have tick.MaxDefinition characters and one more at most, also below.
SELECT name, COALESCE(LEFT(definition, 6291457), ''), generation, since, mark, removed,
  paused_since, paused_until, COALESCE(paused_by, ''), COALESCE(paused_why, ''), paused_resumed, COALESCE(past, '') FROM dibs_jobs WHERE ns = ? AND name IN (?)
ORDER BY name;

-- name: registry
-- A page of the registry: names in a range, after one, so many at most.
SELECT name, COALESCE(LEFT(definition, 6291457), ''), generation, since, mark, removed,
  paused_since, paused_until, COALESCE(paused_by, ''), COALESCE(paused_why, ''), paused_resumed, COALESCE(past, '')
FROM dibs_jobs WHERE ns = ? AND name >= ? AND (? = '' OR name < ?) AND name > ? ORDER BY name LIMIT ?;

-- name: register
-- Makes a job's row, so that there is one to lock. The assignment changes nothing.
INSERT INTO dibs_jobs (ns, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE mark = dibs_jobs.mark;

-- name: define
-- Writes a definition (T11). The same one changes nothing; a changed one, or one that had been removed, is the next
-- generation. A new row has no definition yet, so it always differs. The mark rises to just before since, or to that
-- of a row that was forgotten, unless past definitions say that earlier ticks are still to be settled. Assignments run
-- from left to right, and each sees those before it: definition is compared as bytes, and assigned last.
UPDATE dibs_jobs SET generation = IF(definition IS NULL, ?, generation) + 1, since = IF(? = 0, @dibs_now, ?),
  past = NULLIF(?, ''), mark = IF(definition IS NULL OR past IS NULL, GREATEST(mark, since - 1, ?), mark), removed = 0,
  definition = ?
WHERE ns = ? AND name = ? AND (definition IS NULL OR definition <> ? OR removed <> 0)
  AND (definition IS NULL OR ? = 0 AND (? = 0 OR generation = ? AND removed = 0));

-- name: remove
-- Ends the accounting of a job's ticks, if its definition is of the given generation (0: any).
UPDATE dibs_jobs SET removed = IF(? = 0, @dibs_now, ?), past = NULL WHERE ns = ? AND name = ? AND removed = 0
  AND ? IN (0, generation);

-- name: pausing
-- Whether a pause of the job goes on now; NULL if it is not registered.
SET @dibs_pausing = (SELECT paused_since > 0 AND (paused_until = 0 OR @dibs_now < paused_until)
  FROM dibs_jobs WHERE ns = ? AND name = ? AND removed = 0);

-- name: pause
-- Begins or changes a pause (T8). A pause that goes on keeps its beginning. Claims share the job's row, so each is
-- either before the pause or sees it.
UPDATE dibs_jobs SET paused_since = IF(@dibs_pausing, paused_since, @dibs_now), paused_until = ?, paused_by = ?, paused_why = ?,
  paused_resumed = 0
WHERE ns = ? AND name = ? AND @dibs_pausing IS NOT NULL;

-- name: resume
-- Ends a pause that goes on.
UPDATE dibs_jobs SET paused_until = @dibs_now, paused_resumed = 1 WHERE ns = ? AND name = ? AND @dibs_pausing = 1;

-- name: settle-open
-- Settling (T4) is a row of statements under the job's lock, which waits for every claim that is under way.
-- @dibs_from is the mark if it and the generation are as the caller read them; NULL ends the settling without effect.
-- @dibs_to is how far the mark may rise: to just before the first unfinished tick.
SET @dibs_from = (SELECT mark FROM dibs_jobs WHERE ns = ? AND name = ? AND mark = ? AND ? IN (0, generation));
SET @dibs_to = LEAST(?, COALESCE((SELECT MIN(at) - 1 FROM dibs_ticks
  WHERE ns = ? AND job = ? AND at > ? AND state IN ('claimed', 'started')), 9223372036854775807));

-- name: settle-covered
-- A range that would cover a tick with a row of its own, which would then have two outcomes, stops the mark before
-- it.
SET @dibs_to = IF(EXISTS (SELECT 1 FROM dibs_ticks WHERE ns = ? AND job = ? AND at BETWEEN ? AND ?),
  LEAST(@dibs_to, ? - 1), @dibs_to);

-- name: settle-cut
-- A range that the mark would cut in two is left for the next time. It is asked of all rows from the last one to the
-- first, since lowering the mark may cut an earlier range.
SET @dibs_to = IF(? <= @dibs_to AND ? > @dibs_to, ? - 1, @dibs_to);

-- name: settle-row
-- Inserts one row of outcomes at or below the new mark, or nothing if there is one.
INSERT INTO dibs_ticks (ns, job, at, through, many, state, outcome, reason, inferred, ended)
SELECT j.ns, j.name, ?, ?, ?, 'closed', ?, ?, ?, IF(? = 0, @dibs_now, ?)
FROM dibs_jobs j WHERE j.ns = ? AND j.name = ? AND @dibs_from IS NOT NULL AND ? <= @dibs_to
ON DUPLICATE KEY UPDATE many = dibs_ticks.many;

-- name: settle-mark
-- Raises the mark.
UPDATE dibs_jobs SET mark = GREATEST(mark, @dibs_to) WHERE ns = ? AND name = ? AND @dibs_from IS NOT NULL;

-- name: settled
-- The clock, and whether it settled.
SELECT @dibs_now, @dibs_from IS NOT NULL;

-- name: unsettle-open
-- Takes back what ticks got while the clock was ahead (L12). @dibs_from is the mark, if it is as it was read and may
-- be lowered so far; NULL ends this without effect.
SET @dibs_from = (SELECT mark FROM dibs_jobs
  WHERE ns = ? AND name = ? AND mark = ? AND (mark = ? OR mark > @dibs_now AND ? < mark AND ? >= @dibs_now - ?));

-- name: unsettle-rows
-- Goes on only if all rows are as they were read: settled, or tick.Tick's Foreseen.
SET @dibs_from = IF((SELECT COUNT(*) FROM dibs_ticks FORCE INDEX (PRIMARY)
  WHERE ns = ? AND job = ? AND (at, through) IN (?) AND at IN (?) AND at > ? AND state = 'closed' AND (claimed = 0
    OR ended > @dibs_now AND run_id = '' AND reruns = 0
      AND (outcome IN ('missed', 'paused', 'unavailable') OR outcome = 'skipped' AND reason = 'window'))) = ?,
  @dibs_from, NULL);

-- name: unsettle-delete
-- Deletes those rows.
DELETE FROM dibs_ticks WHERE ns = ? AND job = ? AND at IN (?) AND @dibs_from IS NOT NULL;

-- name: unsettle-mark
-- Lowers the mark. A pause that begins or ends ahead of the clock is brought back. Each column is read before it is
-- assigned, since an assignment sees those before it.
UPDATE dibs_jobs SET since = LEAST(since, ? + 1),
  paused_since = CASE WHEN paused_until = 0 THEN LEAST(paused_since, IF(mark > ?, ? + 1, @dibs_now))
    WHEN paused_resumed = 1 AND paused_until > @dibs_now THEN LEAST(paused_since, @dibs_now) ELSE paused_since END,
  paused_until = IF(paused_resumed = 1, LEAST(paused_until, @dibs_now), paused_until), mark = ?
WHERE ns = ? AND name = ? AND @dibs_from IS NOT NULL;

-- name: split-open
-- Whether the range row is still as it was read, so that it may be split (T3).
SET @dibs_split = EXISTS (SELECT 1 FROM dibs_ticks WHERE ns = ? AND job = ? AND at = ? AND through <> 0 AND through = ? AND many = ?);

-- name: split-part
-- Inserts one part of it.
INSERT INTO dibs_ticks (ns, job, at, through, many, state, outcome, reason, inferred, ended)
SELECT w.ns, w.job, ?, ?, ?, w.state, w.outcome, w.reason, w.inferred, w.ended
FROM dibs_ticks w WHERE w.ns = ? AND w.job = ? AND w.at = ? AND @dibs_split
ON DUPLICATE KEY UPDATE many = dibs_ticks.many;

-- name: split-first
-- The first part keeps the row's place.
UPDATE dibs_ticks SET through = ?, many = ? WHERE ns = ? AND job = ? AND at = ? AND @dibs_split;

-- name: split-done
-- The clock, and whether it was split.
SELECT @dibs_now, @dibs_split;

-- [0] A page of the registry: jobs whose name lies in [$2, $3), after $4, $5 at most, by name. Of a definition they
-- have tick.MaxDefinition characters and one more at most, also below.
SELECT name, left(definition, 6291457), generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past
FROM dibs.jobs
WHERE ns || '' = $1 AND name >= $2::bytea AND name < $3::bytea AND name > $4::bytea
ORDER BY name
LIMIT $5::int;

-- [1] Registers definitions (T11). The same one changes nothing. A changed one, or one that had been removed, becomes
-- the next generation. $2 names, $3 definitions, $4 since (0: now), $5 past definitions, $6 the generation that a
-- change replaces (0: any), $7 the mark, after since, of a row that was forgotten: one that is there stays (0: any
-- other row).
--
-- `of + 1` is the generation of a new row, and how ON CONFLICT learns $6: excluded.generation is 1 for "any", else
-- the generation that must stand now plus one. The mark rises to just before since, so ticks of a time without this
-- definition are nobody's (T4); with past definitions it stays, since those ticks are still to be settled. Rows are
-- written in the order of their names.
INSERT INTO dibs.jobs AS j (ns, name, definition, generation, since, mark, past)
SELECT $1, q.name, q.definition, q.of + 1, q.since, greatest(q.since - 1, q.mark), q.past
FROM (
  -- [3] The jobs $2 as they stand now.
  SELECT name, definition, CASE WHEN since = 0 THEN dibs.now_us() ELSE since END AS since, past, of, mark
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
    AS q(name, definition, since, past, of, mark)
) q
ORDER BY q.name
ON CONFLICT (name, ns) DO UPDATE
  SET definition = excluded.definition, generation = j.generation + 1, since = excluded.since,
      mark = CASE WHEN excluded.past = '' THEN greatest(j.mark, excluded.since - 1) ELSE j.mark END,
      removed = 0, past = excluded.past
  WHERE (j.definition <> excluded.definition OR j.removed <> 0) AND excluded.mark < excluded.since
    AND (excluded.generation = 1 OR j.generation = excluded.generation - 1 AND j.removed = 0);

-- [2] Removes jobs: ends the accounting of their ticks. $2 names, $3 since (0: now), $4 the generation to remove (0:
-- any). A job that is removed already stays as it is. Rows are locked in the order of their names.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS q(name, since, of)
), locked AS MATERIALIZED (
  SELECT q.* FROM asked q
  JOIN dibs.jobs j ON j.ns = q.ns AND j.name = q.name AND j.removed = 0 AND q.of IN (0, j.generation)
  ORDER BY j.name
  FOR NO KEY UPDATE OF j
)
UPDATE dibs.jobs j
SET removed = CASE WHEN k.since = 0 THEN dibs.now_us() ELSE k.since END, past = ''
FROM locked k
WHERE j.ns = k.ns AND j.name = k.name;

-- The jobs $2 as they now stand.
SELECT name, left(definition, 6291457), generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past
FROM dibs.jobs
WHERE ns = $1 AND name = ANY($2::bytea[])
ORDER BY name;

-- [4] Pauses job $2 until $3 (0: until somebody resumes it), by $4 for the reason $5; with $6 ends the pause instead
-- (T8). A pause that goes on keeps its beginning. The row's lock waits for the claims that are under way, which share
-- it, and the clock is read under the lock: so each claim is either before the pause or sees it. Returns the job, or
-- no row if it is not registered.
WITH locked AS MATERIALIZED (
  SELECT ns, name, paused_since, paused_until FROM dibs.jobs
  WHERE ns = $1 AND name = $2::bytea AND removed = 0
  FOR NO KEY UPDATE
), judged AS MATERIALIZED (
  SELECT *, paused_since > 0 AND (paused_until = 0 OR now < paused_until) AS going_on
  FROM (SELECT *, dibs.now_us() AS now FROM locked) k
)
UPDATE dibs.jobs j
SET paused_since = CASE WHEN k.going_on OR $6::bool THEN j.paused_since ELSE k.now END,
    paused_until = CASE WHEN NOT $6 THEN $3::bigint WHEN k.going_on THEN k.now ELSE j.paused_until END,
    paused_resumed = CASE WHEN NOT $6 THEN false WHEN k.going_on THEN true ELSE j.paused_resumed END,
    paused_by = CASE WHEN $6 THEN j.paused_by ELSE $4::text END,
    paused_why = CASE WHEN $6 THEN j.paused_why ELSE $5::text END
FROM judged k
WHERE j.ns = k.ns AND j.name = k.name
RETURNING j.name, left(j.definition, 6291457), j.generation, j.since, j.mark, j.removed, j.paused_since, j.paused_until, j.paused_by, j.paused_why, j.paused_resumed, j.past;

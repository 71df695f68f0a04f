-- The jobs whose name lies in [$2, $3), or from $2 on where $3 is empty.
SELECT name, definition, generation, since, mark, removed
FROM dibs.jobs
WHERE ns = $1 AND name >= $2::bytea AND ($3::bytea = '' OR name < $3)
ORDER BY name;

-- Registers definitions. The same one changes nothing; a changed one, or one that had been
-- removed, is the next generation (rule T11). $2 names, $3 definitions, $4 since.
INSERT INTO dibs.jobs AS j (ns, name, definition, generation, since, mark)
SELECT $1, q.name, q.definition, 1, q.since, q.since - 1
FROM (
  SELECT name, definition, CASE WHEN since = 0 THEN dibs.now_us() ELSE since END AS since
  FROM unnest($2::bytea[], $3::text[], $4::bigint[]) AS q(name, definition, since)
) q
ORDER BY q.name
ON CONFLICT (name, ns) DO UPDATE
  SET definition = excluded.definition, generation = j.generation + 1, since = excluded.since,
      mark = greatest(j.mark, excluded.since - 1), removed = 0
  WHERE j.definition <> excluded.definition OR j.removed <> 0;

-- Ends the accounting of jobs. $2 names, $3 since.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.* FROM unnest($2::bytea[], $3::bigint[]) AS q(name, since)
), locked AS MATERIALIZED (
  SELECT q.* FROM asked q JOIN dibs.jobs j ON j.ns = q.ns AND j.name = q.name AND j.removed = 0
  ORDER BY j.name
  FOR NO KEY UPDATE OF j
)
UPDATE dibs.jobs j
SET removed = CASE WHEN k.since = 0 THEN dibs.now_us() ELSE k.since END
FROM locked k
WHERE j.ns = k.ns AND j.name = k.name;

-- The jobs $2 as they now stand.
SELECT name, definition, generation, since, mark, removed
FROM dibs.jobs
WHERE ns = $1 AND name = ANY($2::bytea[]);

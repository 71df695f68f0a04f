-- Each deletes at most $3 of the rows older than $2, and returns how many: none holds locks for long. What is
-- old and has to stay is looked at $4 rows at a time: the next step goes on behind those, and after the last
-- ones from the beginning.

-- [0] Closed ticks. A tick above its job's mark stays, since a late server could claim it again (T4). A tick of a job
-- that was never registered has no mark, and goes.
WITH came AS MATERIALIZED (
  SELECT coalesce(max(at), -9223372036854775808) AS at, coalesce(max(encode(name, 'hex')), '') AS name
  FROM dibs.pruned WHERE ns = $1 AND kind = 'ticks'
), page AS MATERIALIZED (
  SELECT ctid AS row, ns, at, job, state, greatest(at, through) AS last
  FROM dibs.ticks
  WHERE ns || '' = $1 AND at + 0 < $2::bigint AND (at + 0, job) > ((SELECT at FROM came), (SELECT decode(name, 'hex') FROM came))
  ORDER BY at + 0, job
  LIMIT $4::int
), old AS MATERIALIZED (
  SELECT p.row, p.at, p.job
  FROM page p LEFT JOIN dibs.jobs j ON j.ns = p.ns AND j.name = p.job
  WHERE p.last < $2 AND p.state = 'closed' AND (j.name IS NULL OR p.last <= j.mark)
  ORDER BY p.at, p.job
  LIMIT $3::int
), gone AS (
  DELETE FROM dibs.ticks WHERE ctid = ANY (ARRAY(SELECT row FROM old)) AND state = 'closed'
  RETURNING 1
), ended AS MATERIALIZED (
  (SELECT at, job AS name FROM old WHERE (SELECT count(*) FROM old) = $3 ORDER BY at DESC, job DESC LIMIT 1)
  UNION ALL
  (SELECT at, job FROM page WHERE (SELECT count(*) FROM old) < $3 AND (SELECT count(*) FROM page) = $4 ORDER BY at DESC, job DESC LIMIT 1)
), noted AS (
  INSERT INTO dibs.pruned (ns, kind, at, name) SELECT $1, 'ticks', at, name FROM ended
  ON CONFLICT (ns, kind) DO UPDATE SET at = excluded.at, name = excluded.name
), began AS (
  DELETE FROM dibs.pruned WHERE ns = $1 AND kind = 'ticks' AND NOT EXISTS (SELECT FROM ended)
)
SELECT count(*) FROM gone;

-- [1] Ended runs, and with them what they printed. A run starts before it ends, so the index of starts finds the old
-- ones.
WITH came AS MATERIALIZED (
  SELECT coalesce(max(at), -9223372036854775808) AS at, coalesce(max(convert_from(name, 'UTF8') COLLATE "C"), '') AS name
  FROM dibs.pruned WHERE ns = $1 AND kind = 'runs'
), page AS MATERIALIZED (
  SELECT ctid AS row, run_id, started, outcome <> '' AND ended < $2::bigint AS over
  FROM dibs.runs
  WHERE ns || '' = $1 AND started < $2 AND (started, run_id) > ((SELECT at FROM came), (SELECT name FROM came))
  ORDER BY started, run_id
  LIMIT $4::int
), old AS MATERIALIZED (
  SELECT row, run_id, started FROM page WHERE over
  ORDER BY started, run_id
  LIMIT $3::int
), gone AS (
  DELETE FROM dibs.runs WHERE ctid = ANY (ARRAY(SELECT row FROM old)) AND outcome <> ''
  RETURNING run_id
), silenced AS (
  DELETE FROM dibs.outputs WHERE ns = $1 AND run_id = ANY (ARRAY(SELECT run_id FROM gone))
), ended AS MATERIALIZED (
  (SELECT started, run_id FROM old WHERE (SELECT count(*) FROM old) = $3 ORDER BY started DESC, run_id DESC LIMIT 1)
  UNION ALL
  (SELECT started, run_id FROM page WHERE (SELECT count(*) FROM old) < $3 AND (SELECT count(*) FROM page) = $4 ORDER BY started DESC, run_id DESC LIMIT 1)
), noted AS (
  INSERT INTO dibs.pruned (ns, kind, at, name) SELECT $1, 'runs', started, convert_to(run_id, 'UTF8') FROM ended
  ON CONFLICT (ns, kind) DO UPDATE SET at = excluded.at, name = excluded.name
), began AS (
  DELETE FROM dibs.pruned WHERE ns = $1 AND kind = 'runs' AND NOT EXISTS (SELECT FROM ended)
)
SELECT count(*) FROM gone;

-- [2] Events. All old ones go, so there is nothing to go on behind.
WITH gone AS (
  DELETE FROM dibs.events WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.events WHERE ns || '' = $1 AND at < $2::bigint ORDER BY at, id LIMIT least($3::int, $4::int)))
  RETURNING 1
)
SELECT count(*) FROM gone;

-- [3] Lease records that were free for 30 days: the clock keeps the key's next token above the last one (L10). Keys
-- that are used once (their first bytes are "once" and 0x1f) need no later token, and slow down lists of live keys:
-- they go after a day. A record that somebody has locked is passed over (SKIP LOCKED), and so is kept. The lock and
-- the condition are judged on the newest version, so a record that is granted meanwhile stays.
WITH came AS MATERIALIZED (
  SELECT coalesce(max(encode(name, 'hex')), '') AS name FROM dibs.pruned WHERE ns = $1 AND kind = 'leases'
), page AS MATERIALIZED (
  SELECT ns, key, dibs.now_us() AS now FROM dibs.leases
  WHERE ns || '' = $1 AND key > (SELECT decode(name, 'hex') FROM came)
  ORDER BY key
  LIMIT $4::int
), old AS MATERIALIZED (
  SELECT l.ctid AS row, l.key
  FROM page p JOIN dibs.leases l ON l.ns = p.ns AND l.key = p.key
  WHERE l.expires <= p.now AND greatest(l.renewed, l.expires, l.busy_until) < CASE
    WHEN starts_with(encode(l.key, 'hex'), '6f6e63651f') THEN p.now - 86400000000
    ELSE least($2::bigint, p.now - 30 * 86400000000) END
  ORDER BY l.key
  LIMIT $3::int
  FOR UPDATE OF l SKIP LOCKED
), gone AS (
  DELETE FROM dibs.leases WHERE ctid = ANY (ARRAY(SELECT row FROM old))
  RETURNING 1
), ended AS MATERIALIZED (
  (SELECT key FROM old WHERE (SELECT count(*) FROM old) = $3 ORDER BY key DESC LIMIT 1)
  UNION ALL
  (SELECT key FROM page WHERE (SELECT count(*) FROM old) < $3 AND (SELECT count(*) FROM page) = $4 ORDER BY key DESC LIMIT 1)
), noted AS (
  INSERT INTO dibs.pruned (ns, kind, name) SELECT $1, 'leases', key FROM ended
  ON CONFLICT (ns, kind) DO UPDATE SET name = excluded.name
), began AS (
  DELETE FROM dibs.pruned WHERE ns = $1 AND kind = 'leases' AND NOT EXISTS (SELECT FROM ended)
)
SELECT count(*) FROM gone;

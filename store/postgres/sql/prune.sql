-- Each deletes at most $3 of the rows older than $2, and returns how many: none holds locks for long.

-- Closed ticks; never one above its job's mark, since a late server could claim it again.
WITH gone AS (
  DELETE FROM dibs.ticks WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM dibs.ticks t LEFT JOIN dibs.jobs j ON j.ns = t.ns AND j.name = t.job
    WHERE t.ns = $1 AND t.at < $2::bigint AND t.through < $2 AND t.state = 'closed'
      AND (j.name IS NULL OR greatest(t.at, t.through) <= j.mark)
    ORDER BY t.at LIMIT $3::int)) AND state = 'closed'
  RETURNING 1
)
SELECT count(*) FROM gone;

-- Ended runs, and with them what they printed. A run starts before it ends: the index of starts finds the old ones.
WITH gone AS (
  DELETE FROM dibs.runs WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.runs WHERE ns = $1 AND started < $2::bigint AND outcome <> '' AND ended < $2
    ORDER BY started LIMIT $3::int))
  RETURNING run_id
), silenced AS (
  DELETE FROM dibs.outputs o USING gone WHERE o.ns = $1 AND o.run_id = gone.run_id
)
SELECT count(*) FROM gone;

WITH gone AS (
  DELETE FROM dibs.events WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.events WHERE ns = $1 AND at < $2::bigint ORDER BY at LIMIT $3::int))
  RETURNING 1
)
SELECT count(*) FROM gone;

-- Records of leases that were free for 30 days: the clock keeps their next token above the last
-- (rule L10).
WITH gone AS (
  DELETE FROM dibs.leases WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.leases
    WHERE ns = $1 AND expires <= dibs.now_us()
      AND greatest(renewed, expires, busy_until) < least($2::bigint, dibs.now_us() - 30 * 86400000000)
    ORDER BY key
    LIMIT $3::int
    FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM gone;

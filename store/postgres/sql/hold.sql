-- Locks leases against change until this operation is committed, so that what stands on one is
-- judged by its newest version. $2 keys.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT $1::text AS ns, key FROM unnest($2::bytea[]) key
), locked AS MATERIALIZED (
  SELECT l.key FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  ORDER BY l.key
  FOR SHARE OF l
)
SELECT count(*) FROM locked;

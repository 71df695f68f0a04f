-- Shortens holds that were renewed while this clock was further ahead than now (L12): of the keys $2, those that last
-- longer than their TTL by more than $3 µs. Their holders renew them as ever. They are locked in the order of the
-- keys, and judged once more under the lock, since a renewal may have come in between.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, key FROM unnest($2::bytea[]) key
), locked AS MATERIALIZED (
  SELECT l.ns, l.key
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  WHERE l.expires > dibs.now_us() + l.ttl + $3::bigint
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
)
UPDATE dibs.leases l SET expires = dibs.now_us() + l.ttl
FROM locked k
WHERE l.ns = k.ns AND l.key = k.key AND l.expires > dibs.now_us() + l.ttl + $3;

-- Has the release of each of the keys $2 announced, for half of the next $3 µs at least. A key that is announced for
-- that long already is neither locked nor written, since every waiter of a key asks. Rows are locked in the order of
-- the keys.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, key FROM unnest($2::bytea[]) key
), locked AS MATERIALIZED (
  SELECT q.* FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  WHERE l.watched_until < dibs.now_us() + $3::bigint / 2
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
)
UPDATE dibs.leases l SET watched_until = dibs.now_us() + $3::bigint
FROM locked k
WHERE l.ns = k.ns AND l.key = k.key;

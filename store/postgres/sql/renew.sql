-- Holds grants back for $2 if that is a longer TTL than the namespace $1 knows: it was seen here, so the data
-- was lost. The holders who still come are refused, but others of theirs may be cut off (rule L9).
INSERT INTO dibs.namespaces AS n (ns, installation, identity, epoch, hold_until, max_ttl)
SELECT $1, gen_random_uuid()::text, dibs.identity(), dibs.now_us(), dibs.now_us() + $2::bigint, $2
WHERE NOT EXISTS (SELECT FROM dibs.namespaces WHERE ns = $1 AND max_ttl >= $2::bigint)
ON CONFLICT (ns) DO UPDATE SET max_ttl = excluded.max_ttl, hold_until = dibs.now_us() + excluded.max_ttl
  WHERE n.max_ttl < excluded.max_ttl;

-- Renews what is still the asker's, has not lapsed and is not broken, judged by the clock after
-- the row's lock was obtained. Returns the clock, whether it was renewed, and the record of each key
-- that has one: one row at least.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS q(key, owner, token, ttl, not_after, busy_until)
), locked AS MATERIALIZED (
  SELECT q.*, l AS rec
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key AND l.token > 0
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
), judged AS MATERIALIZED (
  SELECT t.*,
         (t.rec).owner = t.owner AND (t.rec).token = t.token AND (t.rec).expires > t.now AND (t.rec).broken = ''
           AND (t.not_after = 0 OR t.now <= t.not_after) AS good
  FROM (SELECT *, dibs.now_us() AS now FROM locked) t
), renewed AS (
  UPDATE dibs.leases l
  SET ttl = j.ttl, renewed = j.now, expires = j.now + j.ttl,
      busy_until = greatest(l.busy_until, j.busy_until) -- an older heartbeat may arrive after a newer one
  FROM judged j
  WHERE l.ns = j.ns AND l.key = j.key AND j.good
  RETURNING l AS rec
)
SELECT dibs.now_us(), r.done,
       (l).key, (l).owner, (l).token, (l).holder, (l).ttl, (l).acquired, (l).renewed, (l).expires, (l).busy_until, (l).wanted, (l).broken
FROM (SELECT) one
LEFT JOIN (
  SELECT true AS done, rec AS l FROM renewed
  UNION ALL
  SELECT false, rec FROM judged WHERE NOT good
) r ON true;

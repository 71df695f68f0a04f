-- Frees each record that is still this hold's, and tells those who listen for it. The record of
-- a key that is used once ($5) has no successor that would need its token, and goes. Returns the
-- clock, whether it was freed, and the record of each key that has one: one row at least.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::bool[]) AS q(key, owner, token, once)
), locked AS MATERIALIZED (
  SELECT q.*, l AS rec, l.owner = q.owner AND l.token = q.token AND l.expires <> 0 AS good
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key AND l.token > 0
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
), freed AS (
  UPDATE dibs.leases l SET expires = 0, busy_until = 0, wanted = ''
  FROM locked k
  WHERE l.ns = k.ns AND l.key = k.key AND k.good AND NOT k.once
  RETURNING l AS rec
), removed AS (
  DELETE FROM dibs.leases l USING locked k
  WHERE l.ns = k.ns AND l.key = k.key AND k.good AND k.once
)
SELECT dibs.now_us(), r.done,
       (l).key, (l).owner, (l).token, (l).holder, (l).ttl, (l).acquired, (l).renewed, (l).expires, (l).busy_until, (l).wanted, (l).broken,
       CASE WHEN r.done AND (l).watched_until > dibs.now_us() THEN pg_notify('dibs', dibs.topic($1, (l).key))::text END
FROM (SELECT) one
LEFT JOIN (
  SELECT true AS done, rec AS l FROM freed
  UNION ALL
  SELECT good, rec FROM locked WHERE NOT good OR once
) r ON true;

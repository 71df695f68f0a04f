-- The clock, and the records of those of the keys $2 that were ever granted. It returns one row at least, so that the
-- caller always learns the clock. It locks nothing.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, key FROM unnest($2::bytea[]) key
)
SELECT dibs.now_us(), true,
       l.key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken
FROM (SELECT) one
LEFT JOIN (asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key AND l.token > 0) ON true;

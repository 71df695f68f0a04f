-- One page of lease records: those whose key lies in [$2, $3), the first $5. Returns the clock, whether the page was
-- full, its last key, and those of its records that are live, or with $4 the free ones too. It returns one row at
-- least, so the caller always learns the clock and where to go on. It locks nothing: a list acquires nothing and may
-- be a moment old.
WITH page AS MATERIALIZED (
  SELECT * FROM dibs.leases
  WHERE ns || '' = $1 AND key >= $2::bytea AND key < $3::bytea
  ORDER BY key
  LIMIT $5::int
)
SELECT n.now, (SELECT count(*) FROM page) = $5, (SELECT key FROM page ORDER BY key DESC LIMIT 1),
       l.key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken
FROM (SELECT dibs.now_us() AS now) n
LEFT JOIN page l ON l.token > 0 AND ($4::bool OR l.expires > n.now)
ORDER BY l.key;

-- The clock and the records whose key lies in [$2, $3), or from $2 on where $3 is empty; $4: free ones
-- too. One row at least.
SELECT n.now, true,
       l.key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken
FROM (SELECT dibs.now_us() AS now) n
LEFT JOIN LATERAL (
  SELECT * FROM dibs.leases
  WHERE ns = $1 AND key >= $2::bytea AND ($3::bytea = '' OR key < $3) AND token > 0 AND ($4::bool OR expires > n.now)
  ORDER BY key
  LIMIT $5::int
) l ON true
ORDER BY l.key;

-- Writes the newcomer $5 on a live hold ($2 key, $3 owner, $4 token) that may be replaced.
WITH locked AS MATERIALIZED (
  SELECT ns, key, expires, holder FROM dibs.leases
  WHERE ns = $1 AND key = $2::bytea AND owner = $3 AND token = $4
  FOR NO KEY UPDATE
)
UPDATE dibs.leases l SET wanted = $5
FROM locked k
WHERE l.ns = k.ns AND l.key = k.key AND k.expires > dibs.now_us()
  AND (k.holder::json ->> 'replaceable')::bool
RETURNING dibs.now_us(), true,
  l.key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken;

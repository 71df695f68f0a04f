-- Asks a live holder to give way (T7, Replace): writes the newcomer $5 on the hold of key $2, owner $3 and token $4.
-- Only a hold whose own holder declared Replace can be asked. The holder reads the request at its next renewal.
--
-- The row is locked first, and the clock is read under the lock. A later request overwrites an earlier one: the
-- newest wins. Returns the record if it did so, else no row.
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

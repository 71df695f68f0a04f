-- Breaks the live hold of key $2 (L5): any hold if $3 is empty, else only that of owner $3 and token $4. $5 says who
-- breaks it and why, as JSON without the instant, which is added here from the server's clock.
--
-- A plain break forbids renewals and leaves expires alone, so the holder stops within its margin before anybody else
-- is granted the key. With $6 the key is free at once; the holder may still be at work then. The row is locked first,
-- and the clock is read under the lock. The notification reaches sessions that listen for this key. Returns the
-- record, or no row if no hold was broken.
WITH locked AS MATERIALIZED (
  SELECT ns, key, expires FROM dibs.leases
  WHERE ns = $1 AND key = $2::bytea AND ($3::text = '' OR owner = $3 AND token = $4::bigint)
  FOR NO KEY UPDATE
), broken AS (
  UPDATE dibs.leases l
  SET broken = jsonb_set($5::jsonb, '{at}',
        to_jsonb(to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text,
      expires = CASE WHEN $6::bool THEN 0 ELSE l.expires END,
      busy_until = CASE WHEN $6 THEN 0 ELSE l.busy_until END,
      wanted = CASE WHEN $6 THEN '' ELSE l.wanted END
  FROM locked k
  WHERE l.ns = k.ns AND l.key = k.key AND k.expires > dibs.now_us()
  RETURNING l.*
)
SELECT dibs.now_us(), true,
       l.key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken,
       CASE WHEN l.watched_until > dibs.now_us() THEN pg_notify('dibs', dibs.topic(l.ns, l.key))::text END
FROM broken l;

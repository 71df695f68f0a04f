-- Breaks the live hold of $2, or only that of owner $3 and token $4 where $3 is not empty.
-- $5 who and why, as JSON without the instant; $6 frees it at once. It tells those who listen.
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

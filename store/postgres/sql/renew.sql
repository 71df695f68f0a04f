-- First: compares max_ttl (L9). If this client has seen a longer TTL ($2) in namespace $1 than the record says, the
-- record was lost and made anew. Grants are then held back for $2: holders that are cut off may still have leases of
-- that length. In the common case the row is read and nothing is written.
INSERT INTO dibs.namespaces AS n (ns, installation, identity, epoch, hold_until, max_ttl)
SELECT $1, gen_random_uuid()::text, dibs.identity(), dibs.now_us(), dibs.now_us() + $2::bigint, $2
WHERE NOT EXISTS (SELECT FROM dibs.namespaces WHERE ns = $1 AND max_ttl >= $2::bigint)
ON CONFLICT (ns) DO UPDATE SET max_ttl = excluded.max_ttl, hold_until = dibs.now_us() + excluded.max_ttl
  WHERE n.max_ttl < excluded.max_ttl;

-- Second: renews each hold that is still the asker's, has not lapsed and is not broken (L1, L5). A lapsed hold is
-- never revived, even if nobody took the key. All rows are locked in the order of the keys before the first is
-- judged, and the clock is read after the locks were obtained: a renewal that waited is judged by the time at which
-- it got its row. busy_until only rises (L8).
--
-- $2 keys, $3 owners, $4 tokens, $5 TTLs in µs, $6 not_after (0: no bound), $7 busy_until.
--
-- Answer: one row at least, with the clock; for each key that has a record, whether it was renewed, and the record.
-- The rows of dibs.leases are updated in place: no index holds an instant (see migration 1).
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

-- [0] Releases holds: frees each record that is still of the given owner and token (promise 5). A release of a
-- broken or lapsed hold succeeds as well, if nobody else was granted the key since.
--
-- The record stays, for the next token (L10), unless the key is used once ($5): that one has no successor. Rows are
-- locked in the order of the keys. Sessions that listen for a key are notified with the commit; where nobody listens
-- (watched_until) NOTIFY is not called, since it makes commits wait for each other.
--
-- $6: the commit need not be on disk. Then a crash of the server can lose this release, not a grant: a commit writes
-- out all that was committed before it, so the next grant of anything writes out this one. A release that is lost
-- leaves a hold that nobody renews, which lapses within its ttl.
--
-- Answer: one row at least, with the clock; the keys that were freed, and for each other key its record, if it has
-- one.
WITH commits AS MATERIALIZED (
  SELECT CASE WHEN $6::bool THEN set_config('synchronous_commit', 'off', true) END
), asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::bool[]) AS q(key, owner, token, once)
), locked AS MATERIALIZED (
  SELECT q.ns, q.key, q.once
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  WHERE l.owner = q.owner AND l.token = q.token AND l.expires <> 0
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
), freed AS (
  UPDATE dibs.leases l SET expires = 0, busy_until = 0, wanted = ''
  FROM locked k
  WHERE l.ns = k.ns AND l.key = k.key AND NOT k.once
  RETURNING l.key, l.watched_until
), removed AS (
  DELETE FROM dibs.leases l USING locked k
  WHERE l.ns = k.ns AND l.key = k.key AND k.once
  RETURNING l.key
)
SELECT dibs.now_us(), a.freed, a.key,
       (a.l).key, (a.l).owner, (a.l).token, (a.l).holder, (a.l).ttl, (a.l).acquired, (a.l).renewed, (a.l).expires, (a.l).busy_until, (a.l).wanted, (a.l).broken,
       CASE WHEN a.watched_until > dibs.now_us() THEN pg_notify('dibs', dibs.topic($1, a.key))::text END
FROM commits
LEFT JOIN (
  SELECT true AS freed, key, watched_until, NULL::dibs.leases AS l FROM freed
  UNION ALL
  SELECT true, key, 0, NULL FROM removed
  UNION ALL
  SELECT false, q.key, 0, l
  FROM asked q LEFT JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key AND l.token > 0
  WHERE NOT EXISTS (SELECT FROM freed f WHERE f.key = q.key) AND NOT EXISTS (SELECT FROM removed r WHERE r.key = q.key)
) a ON true;

-- [1] Releases one hold, of a key that is not used once, as [0] does with $6. It returns no row where the hold is
-- gone, and has done nothing then; [0] knows what became of it.
--
-- $2 key, $3 owner, $4 token.
UPDATE dibs.leases l SET expires = 0, busy_until = 0, wanted = ''
WHERE l.ns = $1 AND l.key = $2::bytea AND l.owner = $3::text AND l.token = $4::bigint AND l.expires <> 0
RETURNING set_config('synchronous_commit', 'off', true),
  CASE WHEN l.watched_until > dibs.now_us() THEN pg_notify('dibs', dibs.topic(l.ns, l.key))::text END;

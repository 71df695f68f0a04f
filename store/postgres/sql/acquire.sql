-- [0] Makes sure that each of the keys $2 has a row, so that the grant has something to lock. A new row is free and
-- has token 0. Keys that have a row are filtered out first, so the common call writes nothing. Rows go in in the
-- order of their keys: two batches that insert the same keys wait for each other in one order and cannot deadlock.
--
-- Acquire runs this only for keys whose row was missing in a first try. The namespace comes from asked, not from $1,
-- in every statement of this folder: see settings.sql.
WITH asked AS MATERIALIZED (
  SELECT $1::text AS ns, key FROM unnest($2::bytea[]) key
)
INSERT INTO dibs.leases (ns, key)
SELECT q.ns, q.key FROM asked q LEFT JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
WHERE l.key IS NULL
ORDER BY q.key
ON CONFLICT DO NOTHING;

-- [1] Grants leases. Keeps L1 (not_after), L5 (a broken hold lasts until its release or expiry), L8 (busy_until), L9
-- (identity and hold-back) and L10 (tokens).
--
-- $2 keys, $3 owners, $4 holders as JSON, $5 TTLs in µs, $6 not_after (0: no bound), $7 and $8 owner and token of the
-- hold to reclaim, $9 whether to ignore busy_until, $10 the longest TTL that the client has seen, $11 the highest
-- epoch that it has seen.
--
-- Atomicity and locks: it is one statement. What looks taken is left alone, so a refusal writes nothing and costs no
-- fsync. What looks free is locked in the order of the keys. Each grant is judged by the clock read after its row's
-- lock was obtained, and only for the rows that were locked.
--
-- Hold-back (L9): nothing is granted unless the namespace's record names this very server. Grants are held back for
-- max_ttl in four cases: the record names another server; the record is missing (max_ttl is $10 then); the record's
-- max_ttl is smaller than $10, so somebody made it anew after a loss; a client has seen a later epoch than the record
-- has, so this is an older state of the data. A hold-back longer than max_ttl was written by a clock that ran ahead,
-- and begins anew.
--
-- Answer: one row at least. The clock and what the namespace grants stand in each row. Beside them is the key, token
-- and instant of each grant, and the record of each key that was not granted, as it was when the statement began.
WITH here AS MATERIALIZED (
  SELECT dibs.identity() AS identity, dibs.now_us() AS now
), known AS MATERIALIZED (
  SELECT n.hold_until, n.max_ttl, n.epoch FROM dibs.namespaces n, here h
  WHERE n.ns = $1 AND n.identity = h.identity AND n.epoch >= $11::bigint AND n.max_ttl >= $10::bigint
    AND n.hold_until <= h.now + n.max_ttl
), changed AS (
  INSERT INTO dibs.namespaces AS n (ns, installation, identity, epoch, hold_until, max_ttl)
  SELECT $1, gen_random_uuid()::text, h.identity, least(greatest($11::bigint + 1, h.now), 9007199254740991), h.now + $10::bigint, $10
  FROM here h
  WHERE NOT EXISTS (SELECT FROM known)
  ON CONFLICT (ns) DO UPDATE
    SET identity = excluded.identity, max_ttl = greatest(n.max_ttl, excluded.max_ttl),
        hold_until = dibs.now_us() + greatest(n.max_ttl, excluded.max_ttl),
        epoch = CASE WHEN n.identity <> excluded.identity OR n.epoch < $11::bigint
          THEN least(greatest(n.epoch + 1, $11::bigint + 1, dibs.now_us()), 9007199254740991) ELSE n.epoch END
    WHERE n.identity <> excluded.identity OR n.epoch < $11::bigint OR n.max_ttl < excluded.max_ttl
      OR n.hold_until > dibs.now_us() + n.max_ttl
  RETURNING n.hold_until, n.max_ttl, n.epoch
), granting AS MATERIALIZED (
  SELECT hold_until, max_ttl, epoch FROM known
  UNION ALL
  SELECT hold_until, max_ttl, epoch FROM changed
), asked AS MATERIALIZED (
  SELECT $1::text AS ns, q.*
  FROM unnest($2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bool[])
    AS q(key, owner, holder, ttl, not_after, from_owner, from_token, unguarded)
), locked AS MATERIALIZED (
  SELECT q.*, l.token, l.expires, l.busy_until, l.owner = q.from_owner AND l.token = q.from_token AS reclaimed
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  WHERE l.expires = 0 OR l.expires <= dibs.now_us() OR l.owner = q.from_owner AND l.token = q.from_token
  ORDER BY l.key
  FOR NO KEY UPDATE OF l
), granted AS (
  UPDATE dibs.leases l
  SET owner = t.owner, token = greatest(t.token + 1, t.now), holder = t.holder, ttl = t.ttl,
      acquired = t.now, renewed = t.now, expires = t.now + t.ttl, busy_until = 0, wanted = '', broken = ''
  FROM (SELECT *, dibs.now_us() AS now FROM locked) t, granting n
  WHERE l.ns = t.ns AND l.key = t.key
    AND n.hold_until <= t.now AND t.ttl <= n.max_ttl
    AND (t.not_after = 0 OR t.now <= t.not_after)
    -- Neither a lapse nor its supervisor's death ends a request that works elsewhere (rule L8).
    AND (t.expires = 0 OR (t.reclaimed OR t.expires <= t.now) AND (t.busy_until <= t.now OR t.unguarded))
  RETURNING l.key, l.token, l.acquired
)
SELECT dibs.now_us(), n.hold_until, n.max_ttl, n.epoch, a.granted, a.key, a.token, a.acquired,
       (a.l).key, (a.l).owner, (a.l).token, (a.l).holder, (a.l).ttl, (a.l).acquired, (a.l).renewed, (a.l).expires, (a.l).busy_until, (a.l).wanted, (a.l).broken
FROM (SELECT) one
LEFT JOIN granting n ON true
LEFT JOIN (
  SELECT true AS granted, key, token, acquired, NULL::dibs.leases AS l FROM granted
  UNION ALL
  SELECT false, NULL, NULL, NULL, l
  FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key AND l.token > 0
  WHERE NOT EXISTS (SELECT FROM granted g WHERE g.key = q.key)
) a ON true;

-- [2] Grants one lease that is free and has a row, as [1] does, for a third of the processor time: most of what [1]
-- takes goes into its many parts. It returns no row where anything else is the case, and has done nothing then; [1]
-- knows what.
--
-- $2 key, $3 owner, $4 holder as JSON, $5 TTL, $6 not_after, $7 whether to ignore busy_until, $8 the longest TTL and
-- $9 the highest epoch that the client has seen. Answer: token and instant of the grant, what the namespace grants.
WITH granting AS MATERIALIZED (
  SELECT n.hold_until, n.max_ttl, n.epoch FROM dibs.namespaces n
  WHERE n.ns = $1 AND n.identity = dibs.identity() AND n.epoch >= $9::bigint AND n.max_ttl >= $8::bigint
    AND n.max_ttl >= $5::bigint AND n.hold_until <= dibs.now_us()
), locked AS MATERIALIZED (
  SELECT l.ns, l.key, l.token, l.expires, l.busy_until, n.hold_until, n.max_ttl, n.epoch
  FROM granting n, dibs.leases l
  WHERE l.ns = $1 AND l.key = $2::bytea AND l.expires <= dibs.now_us()
  FOR NO KEY UPDATE OF l
)
UPDATE dibs.leases l
SET owner = $3::text, token = greatest(t.token + 1, t.now), holder = $4::text, ttl = $5::bigint,
    acquired = t.now, renewed = t.now, expires = t.now + $5::bigint, busy_until = 0, wanted = '', broken = ''
FROM (SELECT *, dibs.now_us() AS now FROM locked) t
WHERE l.ns = t.ns AND l.key = t.key AND t.hold_until <= t.now
  AND ($6::bigint = 0 OR t.now <= $6::bigint)
  AND (t.expires = 0 OR t.expires <= t.now AND (t.busy_until <= t.now OR $7::bool))
RETURNING l.token, l.acquired, t.max_ttl, t.epoch;

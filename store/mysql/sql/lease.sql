-- name: ensure
-- Makes the row of a lease, free, before the transaction that may grant it. So there is always a row to lock, and two
-- first acquirers cannot deadlock over the gap where it will be. The assignment changes nothing.
INSERT INTO dibs_leases (ns, lease_key) VALUES ? ON DUPLICATE KEY UPDATE ttl = dibs_leases.ttl;

-- name: grant
-- Grants one lease, if the packet has locked its row (@dibs_locked), the request is in time (L1), the hold-back is
-- over and the TTL allowed (L9). The token is larger than the last one and than the clock (L10). What was not
-- released waits for busy_until unless the newcomer says that it need not: neither a lapse nor the supervisor's death
-- ends a request that works elsewhere (L8). A repeated request of a live owner changes nothing.
UPDATE dibs_leases SET owner = ?, token = GREATEST(token + 1, @dibs_now), holder = ?, replaceable = ?, ttl = ?,
  acquired = @dibs_now, renewed = @dibs_now, expires = @dibs_now + ?, busy_until = 0,
  wanted = NULL, broken = NULL, broken_at = 0
WHERE ns = ? AND lease_key = ? AND @dibs_locked >= ?
  AND @dibs_now <= ? AND ? <= @dibs_max_ttl AND @dibs_hold <= @dibs_now
  AND NOT (owner = ? AND expires > @dibs_now)
  AND (expires = 0 OR (expires <= @dibs_now OR owner = ? AND token = ?) AND (busy_until <= @dibs_now OR ? = 1));

-- name: renew
-- Renews holds that are live, not broken, and of the given owner and token (L1, L5). Holds are compared as one
-- string: a long list of strings is searched by halving. An older heartbeat may arrive after a newer one, and must
-- not lower the busy_until that the newer one stored (L8). Without the hint a small table is scanned, which waits for
-- locks on rows that this packet has no business with.
UPDATE dibs_leases FORCE INDEX (PRIMARY) SET ttl = ?, renewed = @dibs_now, expires = @dibs_now + ?, busy_until = GREATEST(busy_until, ?)
WHERE ns = ? AND lease_key IN (?) AND CONCAT(owner, token, '/', lease_key) IN (?)
  AND expires > @dibs_now AND broken_at = 0 AND @dibs_now <= ?;

-- name: renew-one
-- Renews one hold: a transaction by itself, for the common heartbeat. It waits for one row, which is locked by its
-- primary key at any level of isolation, and the clock is read for it after the wait (evaluated). Assignments run
-- from left to right: expires is by the new renewed.
UPDATE dibs_leases FORCE INDEX (PRIMARY) SET ttl = ?, renewed = ?, expires = renewed + ?, busy_until = GREATEST(busy_until, ?)
WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > ? AND broken_at = 0 AND ? <= ?;

-- name: renewed
-- A piece of told: the clock, and max_ttl.
@dibs_now, ?

-- name: renewed-one
-- A piece of told: whether the statement before it has renewed, and max_ttl.
ROW_COUNT(), ?

-- name: trim
-- Shortens holds that were renewed while the clock was further ahead than now (L12).
UPDATE dibs_leases FORCE INDEX (PRIMARY) SET expires = @dibs_now + ttl
WHERE ns = ? AND lease_key IN (?) AND expires > @dibs_now + ttl + ?;

-- name: release
-- Frees holds that are still of the given owner and token (promise 5). The row stays, for the next token (L10).
UPDATE dibs_leases FORCE INDEX (PRIMARY) SET expires = 0, busy_until = 0, wanted = NULL
WHERE ns = ? AND lease_key IN (?) AND CONCAT(owner, token, '/', lease_key) IN (?) AND expires <> 0;

-- name: released-one
-- A piece of told: whether the statement before it has released, which was a transaction by itself.
ROW_COUNT(), ?

-- name: bury
-- Deletes released keys that are used once: they have no successor that would need their token.
DELETE l FROM dibs_leases l FORCE INDEX (PRIMARY)
WHERE ns = ? AND lease_key IN (?) AND CONCAT(owner, token, '/', lease_key) IN (?) AND expires = 0;

-- name: ask
-- Asks a live holder to give way (T7, Replace), if it declared Replace itself. The newest request wins.
UPDATE dibs_leases SET wanted = ?
WHERE ns = ? AND lease_key = ? AND owner = ? AND token = ? AND expires > @dibs_now AND replaceable = 1;

-- name: break
-- Breaks a live hold (L5): any one, or only that of an owner and token. A plain break forbids renewals and leaves
-- expires alone; with 1 the key is free at once. Assignments run from left to right; none reads a column that an
-- earlier one wrote.
UPDATE dibs_leases SET broken = ?, broken_at = @dibs_now, expires = IF(? = 1, 0, expires),
  busy_until = IF(? = 1, 0, busy_until), wanted = IF(? = 1, NULL, wanted)
WHERE ns = ? AND lease_key = ? AND expires > @dibs_now AND (? = 0 OR owner = ? AND token = ?);

-- name: records
-- Records of leases that were ever granted. They are read in the packet that changed them.
SELECT lease_key, owner, token, holder, ttl, acquired, renewed, expires, busy_until, wanted, broken, broken_at
FROM dibs_leases WHERE ns = ? AND lease_key IN (?) AND owner <> '';

-- name: told
-- The same, with a fragment beside each of them. It returns at least one row, whose key is NULL if there is no
-- record: so the clock always comes back.
SELECT ?, l.lease_key, l.owner, l.token, l.holder, l.ttl, l.acquired, l.renewed, l.expires, l.busy_until, l.wanted, l.broken, l.broken_at
FROM (SELECT 1) one LEFT JOIN dibs_leases l ON l.ns = ? AND l.lease_key IN (?) AND l.owner <> '';

-- name: list
-- A page of the records whose key lies in a range, free ones too. The first row is the clock. It is like told, but
-- without a join, which would sort all that it finds.
(SELECT ?, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) UNION ALL
(SELECT 0, lease_key, owner, token, holder, ttl, acquired, renewed, expires, busy_until, wanted, broken, broken_at
FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key >= ? AND lease_key < ? ORDER BY lease_key LIMIT ?);

-- name: unused
-- A page of records, and whether each was free for 30 days (L10). Keys that are used once need no later token, and
-- slow down lists of live keys: they go after a day.
SELECT 0, lease_key, (?) FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key > ? ORDER BY lease_key LIMIT ?;

-- name: is-unused
-- A piece of the one above and of forget. The keys that are used once begin with "once" and 0x1f.
expires <= @dibs_now AND busy_until <= @dibs_now
  AND renewed < @dibs_now - IF(LEFT(lease_key, 5) = CONCAT('once', CHAR(31)), 86400000000, 2592000000000)

-- name: forget
-- Deletes records. The ? is is-unused again: one may have been granted since.
DELETE l FROM dibs_leases l FORCE INDEX (PRIMARY)
WHERE ns = ? AND lease_key IN (?) AND ?;

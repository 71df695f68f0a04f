-- name: allowed
-- Reads the clock, after the locks, and what the grants of this packet may do by it (L9). All but the clock are NULL,
-- and so nothing is granted, unless four things hold: the namespace is known to this very server; its epoch is no
-- older, and its max_ttl no shorter, than one that the client has seen; its hold-back is not longer than max_ttl
-- (else a clock that ran ahead wrote it).
SELECT clock.at, m.max_ttl, m.hold_until, m.epoch INTO @dibs_now, @dibs_max_ttl, @dibs_hold, @dibs_epoch
FROM (SELECT ? AS at) clock
LEFT JOIN dibs_meta m ON m.ns = ? AND m.identity = ? AND m.epoch >= ? AND m.max_ttl >= ? AND m.hold_until <= clock.at + m.max_ttl;

-- name: allowance
-- A piece of told: what an acquire is answered by.
@dibs_now, COALESCE(@dibs_max_ttl, -1), COALESCE(@dibs_hold, -1), COALESCE(@dibs_epoch, 0), @dibs_locked

-- name: read-meta
-- What the namespace is.
SELECT installation, max_ttl, hold_until, epoch FROM dibs_meta WHERE ns = ?;

-- name: create-meta
-- Makes the namespace's record. With an empty identity, hold-back, which follows, holds everything back; with 1 the
-- store was stated to be new (`dibs init`).
INSERT INTO dibs_meta (ns, installation, identity, max_ttl, hold_until, created, epoch)
VALUES (?, ?, IF(? = 1, @dibs_identity, ''), ?, 0, @dibs_now, @dibs_now)
ON DUPLICATE KEY UPDATE created = dibs_meta.created;

-- name: lock-meta
-- Locks the record before the clock is read: by an instant from before a wait, another's hold-back would seem too
-- long.
SELECT COUNT(max_ttl) INTO @dibs_locked FROM dibs_meta FORCE INDEX (PRIMARY) WHERE ns = ? FOR UPDATE;

-- name: hold-back
-- Holds grants back for max_ttl where the identity or epoch is not the known one, or a longer TTL was seen, or the
-- hold-back is longer than max_ttl (L9; see allowed). Assignments run from left to right: identity comes after epoch,
-- since the epoch grows only with a change of identity or where a later one was seen.
UPDATE dibs_meta SET hold_until = @dibs_now + GREATEST(max_ttl, ?),
  epoch = IF(identity <> @dibs_identity OR epoch < ?, LEAST(GREATEST(epoch + 1, ? + 1, @dibs_now), 9007199254740991), epoch),
  identity = @dibs_identity, max_ttl = GREATEST(max_ttl, ?)
WHERE ns = ? AND (identity <> @dibs_identity OR epoch < ? OR max_ttl < ? OR hold_until > @dibs_now + max_ttl);

-- name: longest
-- A piece of a statement: the namespace's max_ttl.
COALESCE((SELECT max_ttl FROM dibs_meta WHERE ns = ?), 0)

-- name: raise-max-ttl
-- Raises max_ttl. It never falls: a hold of the longer TTL may be live.
UPDATE dibs_meta SET max_ttl = GREATEST(max_ttl, ?) WHERE ns = ?;

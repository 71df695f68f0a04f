-- name: allowed
-- The clock, read as ever after the locks, and what the grants of this packet may do by it (rule L9). All the
-- others are NULL, and so nothing is granted, unless the namespace is known to this very server, in an epoch
-- that is no older and with a max_ttl that is no shorter than those that were seen, and with a hold-back that
-- no clock which ran ahead has written.
SELECT clock.at, m.max_ttl, m.hold_until, m.epoch INTO @dibs_now, @dibs_max_ttl, @dibs_hold, @dibs_epoch
FROM (SELECT ? AS at) clock
LEFT JOIN dibs_meta m ON m.ns = ? AND m.identity = ? AND m.epoch >= ? AND m.max_ttl >= ? AND m.hold_until <= clock.at + m.max_ttl;

-- name: allowance
-- A piece of told.
@dibs_now, COALESCE(@dibs_max_ttl, -1), COALESCE(@dibs_hold, -1), COALESCE(@dibs_epoch, 0), @dibs_locked

-- name: read-meta
SELECT installation, max_ttl, hold_until, epoch FROM dibs_meta WHERE ns = ?;

-- name: create-meta
-- With an empty identity the statement that follows holds everything back.
INSERT INTO dibs_meta (ns, installation, identity, max_ttl, hold_until, created, epoch)
VALUES (?, ?, IF(? = 1, @dibs_identity, ''), ?, 0, @dibs_now, @dibs_now)
ON DUPLICATE KEY UPDATE created = dibs_meta.created;

-- name: lock-meta
-- Before the clock is read: by an instant from before a wait, another's hold-back would seem too long.
SELECT COUNT(max_ttl) INTO @dibs_locked FROM dibs_meta FORCE INDEX (PRIMARY) WHERE ns = ? FOR UPDATE;

-- name: hold-back
-- Assignments run from left to right: the identity is the last, since the epoch grows only with a change of it, or
-- if a later one was seen. A hold-back longer than max_ttl was written by a clock which ran ahead, and begins anew. A
-- max_ttl shorter than one that was seen is of somebody who made the record anew after the data was lost.
UPDATE dibs_meta SET hold_until = @dibs_now + GREATEST(max_ttl, ?),
  epoch = IF(identity <> @dibs_identity OR epoch < ?, LEAST(GREATEST(epoch + 1, ? + 1, @dibs_now), 9007199254740991), epoch),
  identity = @dibs_identity, max_ttl = GREATEST(max_ttl, ?)
WHERE ns = ? AND (identity <> @dibs_identity OR epoch < ? OR max_ttl < ? OR hold_until > @dibs_now + max_ttl);

-- name: longest
-- A piece of a statement.
COALESCE((SELECT max_ttl FROM dibs_meta WHERE ns = ?), 0)

-- name: raise-max-ttl
UPDATE dibs_meta SET max_ttl = GREATEST(max_ttl, ?) WHERE ns = ?;

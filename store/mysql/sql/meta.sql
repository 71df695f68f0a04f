-- name: allowed
-- What the grants of this packet may do (rule L9). Both stay NULL, and so nothing is granted,
-- unless the namespace is known to this very server.
SET @dibs_max_ttl = NULL, @dibs_hold = NULL;
SELECT max_ttl, hold_until INTO @dibs_max_ttl, @dibs_hold FROM dibs_meta WHERE ns = ? AND identity = @dibs_identity;

-- name: allowance
SELECT @dibs_now, COALESCE(@dibs_max_ttl, -1), COALESCE(@dibs_hold, -1);

-- name: read-meta
SELECT installation, max_ttl, hold_until FROM dibs_meta WHERE ns = ?;

-- name: create-meta
-- With an empty identity the statement that follows holds everything back.
INSERT INTO dibs_meta (ns, installation, identity, max_ttl, hold_until, created)
VALUES (?, ?, IF(? = 1, @dibs_identity, ''), ?, 0, @dibs_now)
ON DUPLICATE KEY UPDATE created = dibs_meta.created;

-- name: hold-back
UPDATE dibs_meta SET hold_until = GREATEST(hold_until, @dibs_now + max_ttl), identity = @dibs_identity
WHERE ns = ? AND identity <> @dibs_identity;

-- name: raise-max-ttl
UPDATE dibs_meta SET max_ttl = GREATEST(max_ttl, ?) WHERE ns = ?;

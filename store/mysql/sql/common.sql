-- Fragments of the packets. A packet is sent as one text and carried out statement by statement.

-- name: begin
-- The isolation is said per transaction, so that it does not depend on the session: READ COMMITTED
-- takes no gap locks, and each statement sees what was committed when it began.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;

-- name: commit
COMMIT;

-- name: clock
-- SYSDATE is the time of evaluation; NOW may be that of the packet. It is read in a statement of
-- its own, after the packet has its row locks: no time that passed waiting for them is overlooked,
-- and all that the packet decides is decided at this one instant.
SET @dibs_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));

-- name: now
SELECT @dibs_now;

-- name: tell-time
SELECT ?;

-- What follows up to identity-mariadb are pieces of statements.

-- name: decided
@dibs_now

-- name: began
-- When the statement began, for one that only reads and is a packet of its own: it waits for no lock, and what it sees
-- was committed then or later. So nothing is concluded by a clock that is ahead of what was read.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))

-- name: evaluated
-- When it is evaluated: for a row that the statement changes, after the wait for that row.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))

-- name: identity-mysql
@@server_uuid

-- name: identity-mariadb
-- Its server_uid is missing from older minor versions, and two processes that disagree about the
-- expression would hold each other back for ever.
CONCAT_WS('|', @@hostname, @@port, @@datadir, @@server_id)

-- name: this-server
SET @dibs_identity = ?;

-- name: lock-jobs
-- These lock the rows they name and no others, in the order of the primary key. Counting a column
-- outside the key matters: for COUNT(*) MariaDB reads, and locks, every row of the namespace.
SELECT COUNT(mark) INTO @dibs_locked FROM dibs_jobs FORCE INDEX (PRIMARY) WHERE ns = ? AND name IN (?) FOR UPDATE;

-- name: lock-leases
SELECT COUNT(token) INTO @dibs_locked FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key IN (?) FOR UPDATE;

-- name: share-leases
-- Not FOR SHARE, which MariaDB does not know.
SELECT COUNT(token) INTO @dibs_locked FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key IN (?) LOCK IN SHARE MODE;

-- name: lock-ticks
SELECT COUNT(many) INTO @dibs_locked FROM dibs_ticks FORCE INDEX (PRIMARY) WHERE ns = ? AND (?) FOR UPDATE;

-- name: lock-runs
SELECT COUNT(token) INTO @dibs_locked FROM dibs_runs FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?) FOR UPDATE;

-- Fragments of the packets. A packet is the text of one operation: it is sent at once, COMMIT included, and the
-- server carries it out statement by statement (see packet.go). Comments are left out when these files are read. The
-- ? of a fragment takes one argument, a list, or another fragment.
--
-- A packet that decides something is put together like this: begin, locks, clock, what decides by @dibs_now, commit,
-- answer. User variables (@dibs_…) carry what one statement learnt to the next ones.

-- name: session
-- The settings of our own sessions, whatever the server's defaults and the address say. The pools of callers are
-- checked for them (settings in server.go). Comments such as /*M! are code for MariaDB, and /*!8 for MySQL.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET NAMES utf8mb4;
SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, completion_type = 'NO_CHAIN',
  sql_auto_is_null = 0, sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = 18446744073709551615, unique_checks = 1
  /*M!100103 , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */;

-- name: begin
-- The isolation is named per transaction, so that it does not depend on the session. READ COMMITTED takes no gap
-- locks, and each statement sees what was committed when it began.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION READ WRITE;

-- name: use-index
-- Lets MariaDB use an index for lists of any length (see longList). Other servers take the comment for one.
SET @dibs_lists = 0 /*M!100303 + @@in_predicate_conversion_threshold, SESSION in_predicate_conversion_threshold = 0 */;

-- name: as-before
-- Puts the session back.
SET @dibs_lists = @dibs_lists /*M!100303 , SESSION in_predicate_conversion_threshold = @dibs_lists */;

-- name: commit
-- With completion_type=CHAIN, a bare COMMIT would begin another transaction.
COMMIT AND NO CHAIN NO RELEASE;

-- name: clock
-- SYSDATE is the time of evaluation; NOW may be that of the packet's beginning. It is read in a statement of its own,
-- after the packet has its row locks: time that passed while it waited for them is not overlooked (L1), and the whole
-- packet is decided at this one instant.
SET @dibs_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));

-- name: now
-- The instant at which the packet was decided.
SELECT @dibs_now;

-- name: tell-time
-- The same, for a packet that has read the clock in another way: the ? is one of the fragments below.
SELECT ?;

-- What follows up to identity-mariadb are pieces of statements.

-- name: decided
-- The instant of the clock statement.
@dibs_now

-- name: began
-- When the statement began. It is for one that only reads and is a packet of its own: it waits for no lock, and what
-- it sees was committed then or later. So nothing is concluded by a clock that is ahead of what was read.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))

-- name: evaluated
-- When it is evaluated. In an UPDATE, that is after the wait for the row that is changed.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))

-- name: identity-mysql
-- Which server this is (L9).
@@server_uuid

-- name: identity-mariadb
-- Which server this is (L9). Older minor versions have no server_uid, and two processes that disagree about the
-- expression would hold each other back for ever.
CONCAT_WS('|', @@hostname, @@port, @@datadir, @@server_id)

-- name: this-server
-- The identity that the statements behind it compare with.
SET @dibs_identity = ?;

-- name: lock-jobs
-- This one and the next four lock the rows that they name and no others, in the order of the primary key. FORCE INDEX
-- keeps a small table from being scanned, which would lock all of it. COUNT of a column outside of the key matters
-- too: for COUNT(*) MariaDB reads, and locks, every row of the namespace.
SELECT COUNT(mark) INTO @dibs_locked FROM dibs_jobs FORCE INDEX (PRIMARY) WHERE ns = ? AND name IN (?) FOR UPDATE;

-- name: lock-leases
-- Leases that the packet grants, changes or releases.
SELECT COUNT(token) INTO @dibs_locked FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key IN (?) FOR UPDATE;

-- name: share-leases
-- Leases that the packet stands on (T1): operations on one lease run beside each other. It is not FOR SHARE, which
-- MariaDB does not know.
SELECT COUNT(token) INTO @dibs_locked FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key IN (?) LOCK IN SHARE MODE;

-- name: lock-ticks
-- Ticks. The ? is job = … AND at = … for each (spots): (job, at) IN (…) would lock the namespace on MariaDB.
SELECT COUNT(many) INTO @dibs_locked FROM dibs_ticks FORCE INDEX (PRIMARY) WHERE ns = ? AND (?) FOR UPDATE;

-- name: lock-runs
-- Runs.
SELECT COUNT(token) INTO @dibs_locked FROM dibs_runs FORCE INDEX (PRIMARY) WHERE ns = ? AND run_id IN (?) FOR UPDATE;

-- [0] The queues whose turn it is: the next $3 after $2. Maintenance takes the queues of a namespace by turns, so
-- that no step grows with their number.
SELECT DISTINCT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind AND id > $2::bigint ORDER BY id LIMIT $3::int;

-- [1] Workers that will not end what they have (Q4): see queue_dead.
SELECT w.id, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since, 0::bigint
FROM dibs.queue_dead($1) d JOIN dibs.queue_workers w ON w.id = d;

-- [2] Takes tasks from the worker $2, $3 at most: see queue_rescue. It also counts how many it looks at: those that
-- another transaction has are not taken.
SELECT r.rescued, r.crashed, (SELECT count(*) FROM (SELECT FROM dibs.tasks t WHERE t.worker = $2::int AND t.state = 5 LIMIT $3::int) x)
FROM dibs.queue_rescue($1, $2::int, $3::int) r;

-- [3] Marks those that have nothing left as gone.
SELECT dibs.queue_mark_gone($1::int[]);

-- [4] Discards waiting tasks whose expires_at has passed (Q6).
SELECT dibs.queue_expire($1, $2::bigint[], $3::int);

-- [5] Makes due tasks available.
SELECT dibs.queue_make_due_all($1::bigint[], $2::int);

-- [6] Ends windows that are over (Q1), $2 at most. LATERAL: one short index scan for each queue. Here and below, the
-- clock is in a SELECT of its own: no index is asked for less than what is volatile.
SELECT dibs.queue_free(ARRAY(
  SELECT t.id FROM unnest($1::bigint[]) q(id),
    LATERAL (SELECT x.id FROM dibs.tasks x WHERE x.queue = q.id AND x.state = 10 AND x.ended + x.hold <= (SELECT dibs.now_us()) ORDER BY x.ended + x.hold LIMIT $2::int) t
  LIMIT $2::int));

-- [7] Checks and repairs limits (Q5).
SELECT dibs.queue_repair($1, $2::int);

-- [8] Deletes tasks of a final state whose retention is over.
SELECT dibs.queue_prune($1::bigint[], $2::smallint, $3::bigint, $4::int);

-- [9] Forgets counters older than $2, $3 rows at most. Here and below, rows that another process has are passed over
-- (SKIP LOCKED), and the rows that are locked are found by ctid, which nothing can move meanwhile.
DELETE FROM dibs.queue_counts WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM dibs.queue_counts WHERE ns = $1 AND minute < (SELECT dibs.now_us() - $2::bigint) LIMIT $3::int FOR UPDATE SKIP LOCKED));

-- [10] Forgets workers that have been gone for 30 days: nobody asks about their tasks any more.
DELETE FROM dibs.queue_workers WHERE id = ANY (ARRAY(
  SELECT w.id FROM dibs.queue_workers w WHERE w.ns = $1 AND w.gone <> 0 AND w.gone < (SELECT dibs.now_us() - 30 * 86400000000) AND NOT w.unrescued
  LIMIT $2::int FOR UPDATE SKIP LOCKED));

-- [11] Sums up counters of which a minute has several rows: deletes $2 rows at most, and adds their sums. It looks at
-- one minute, any that there is, and there at $3 rows. Minutes younger than two are left alone, since rows are still
-- added to them; those older than half an hour were summed up.
WITH RECURSIVE minutes(m) AS (
  SELECT dibs.now_us() - 1800000000
  UNION ALL
  SELECT (SELECT c.minute FROM dibs.queue_counts c WHERE c.ns = $1 AND c.minute > m ORDER BY c.minute LIMIT 1) FROM minutes WHERE m < dibs.now_us() - 120000000
), seen AS MATERIALIZED (
  SELECT c.ctid AS place, queue, kind, name FROM dibs.queue_counts c
  WHERE ns = $1 AND minute = (SELECT m FROM minutes WHERE m < dibs.now_us() - 120000000 ORDER BY random() LIMIT 1) LIMIT $3::int
), gone AS (
  DELETE FROM dibs.queue_counts WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM dibs.queue_counts c WHERE ns = $1 AND c.ctid = ANY (ARRAY(
      SELECT unnest(rows) FROM (SELECT array_agg(place) AS rows FROM seen GROUP BY queue, kind, name HAVING count(*) > 1 LIMIT $2::int) x LIMIT $2::int))
    FOR UPDATE SKIP LOCKED))
  RETURNING *
)
INSERT INTO dibs.queue_counts
SELECT ns, minute, queue, kind, name, sum(n) FROM gone GROUP BY ns, minute, queue, kind, name;

-- [12] The clock.
SELECT dibs.now_us();

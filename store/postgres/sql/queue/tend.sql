-- The next queues whose turn it is, after $2, at most $3.
SELECT DISTINCT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind AND id > $2::bigint ORDER BY id LIMIT $3::int;

-- Workers that will not end what they have: see queue_dead.
SELECT w.id, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since, 0::bigint
FROM dibs.queue_dead($1) d JOIN dibs.queue_workers w ON w.id = d;

-- Rescues tasks of one.
SELECT rescued, crashed FROM dibs.queue_rescue($1, $2::int, $3::int);

-- Those that have nothing left are gone.
SELECT dibs.queue_bury($1::int[]);

-- Discards what is waited for no longer.
SELECT dibs.queue_expire($1, $2::bigint[], $3::int);

-- Makes due tasks available.
SELECT dibs.queue_ripen_all($1::bigint[], $2::int);

-- Ends windows that are over.
SELECT dibs.queue_free(ARRAY(
  SELECT t.id FROM unnest($1::bigint[]) q(id),
    LATERAL (SELECT x.id FROM dibs.tasks x WHERE x.queue = q.id AND x.state = 10 AND x.ended + x.hold <= dibs.now_us() ORDER BY x.ended + x.hold LIMIT $2::int) t
  LIMIT $2::int));

-- Repairs limits.
SELECT dibs.queue_repair($1, $2::int);

-- Deletes tasks of a final state.
SELECT dibs.queue_prune($1::bigint[], $2::smallint, $3::bigint, $4::int);

-- Forgets counters and workers that nobody can have a question about any more: $2 how old, $3 how many.
DELETE FROM dibs.queue_counts WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM dibs.queue_counts WHERE ns = $1 AND minute < dibs.now_us() - $2::bigint LIMIT $3::int FOR UPDATE SKIP LOCKED));

DELETE FROM dibs.queue_workers WHERE id = ANY (ARRAY(
  SELECT w.id FROM dibs.queue_workers w WHERE w.ns = $1 AND w.gone <> 0 AND w.gone < dibs.now_us() - 30 * 86400000000 AND NOT w.owing
  LIMIT $2::int FOR UPDATE SKIP LOCKED));

-- Sums up the counters of a minute, of those that nobody else is summing up, at most so many.
WITH gone AS (
  DELETE FROM dibs.queue_counts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.queue_counts
    WHERE ns = $1 AND minute = (
      SELECT minute FROM dibs.queue_counts
      WHERE ns = $1 AND minute >= dibs.now_us() - 1800000000 AND minute < dibs.now_us() - 120000000
      GROUP BY minute HAVING count(*) > count(DISTINCT (queue, kind, name)) LIMIT 1)
    LIMIT $2::int FOR UPDATE SKIP LOCKED))
  RETURNING *
)
INSERT INTO dibs.queue_counts
SELECT ns, minute, queue, kind, name, sum(n) FROM gone GROUP BY ns, minute, queue, kind, name;

SELECT dibs.now_us();

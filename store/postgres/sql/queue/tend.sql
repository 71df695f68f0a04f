-- Workers that have tasks and whose lease is not live. What runs is looked up by its worker, one after the other.
WITH RECURSIVE busy AS (
  (SELECT worker FROM dibs.tasks WHERE state = 5 ORDER BY worker LIMIT 1)
  UNION ALL
  SELECT n.worker FROM busy b, LATERAL (SELECT worker FROM dibs.tasks WHERE state = 5 AND worker > b.worker ORDER BY worker LIMIT 1) n
)
SELECT w.id, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since, 0::bigint
FROM busy b JOIN dibs.queue_workers w ON w.id = b.worker
LEFT JOIN dibs.leases l ON l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token AND l.expires > dibs.now_us()
WHERE w.ns = $1 AND l.key IS NULL;

-- Rescues tasks of one.
SELECT rescued, crashed FROM dibs.queue_rescue($1, $2::int, $3::int);

-- Those that have gone without leaving.
UPDATE dibs.queue_workers w SET gone = dibs.now_us()
WHERE w.ns = $1 AND w.gone = 0
  AND NOT EXISTS (SELECT FROM dibs.leases l WHERE l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token AND l.expires > dibs.now_us());

-- Discards what is waited for no longer.
SELECT dibs.queue_expire($1, $2::int);

-- Makes due tasks available.
SELECT coalesce(sum(dibs.queue_ripen(q.id, dibs.now_us(), $2::int)), 0)
FROM (SELECT DISTINCT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind) q
WHERE EXISTS (SELECT FROM dibs.tasks t WHERE t.queue = q.id AND t.state IN (0, 6) AND t.due <= dibs.now_us());

-- Ends windows that are over.
SELECT dibs.queue_free(ARRAY(
  SELECT t.id FROM (SELECT DISTINCT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind) q,
    LATERAL (SELECT x.id FROM dibs.tasks x WHERE x.queue = q.id AND x.state = 10 AND x.ended + x.hold <= dibs.now_us() ORDER BY x.ended + x.hold LIMIT $2::int) t
  LIMIT $2::int));

-- Repairs limits.
SELECT dibs.queue_repair($1, $2::int);

-- Deletes tasks of a final state.
SELECT dibs.queue_prune($1, $2::smallint, $3::bigint, $4::int);

-- Forgets counters, workers and limits that nobody can have a question about any more: $2 how old.
DELETE FROM dibs.queue_counts WHERE ns = $1 AND minute < dibs.now_us() - $2::bigint;

DELETE FROM dibs.queue_workers w WHERE w.ns = $1 AND w.gone <> 0 AND w.gone < dibs.now_us() - 30 * 86400000000
  AND NOT EXISTS (SELECT FROM dibs.tasks t WHERE t.worker = w.id AND t.state = 5);

-- Sums up the counters of the last minutes, of those that nobody else is summing up.
WITH gone AS (
  DELETE FROM dibs.queue_counts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM dibs.queue_counts
    WHERE ns = $1 AND minute = (
      SELECT minute FROM dibs.queue_counts
      WHERE ns = $1 AND minute >= dibs.now_us() - 1800000000 AND minute < dibs.now_us() - 120000000
      GROUP BY minute HAVING count(*) > count(DISTINCT (queue, kind, name)) LIMIT 1)
    FOR UPDATE SKIP LOCKED))
  RETURNING *
)
INSERT INTO dibs.queue_counts
SELECT ns, minute, queue, kind, name, sum(n) FROM gone GROUP BY ns, minute, queue, kind, name;

SELECT dibs.now_us();

-- [0] Gives tasks to a worker: see queue_fetch.
SELECT task, token, coalesce(sort_key, 0), coalesce(queue, 0), coalesce(kind, 0), due, coalesce(enqueued, 0), coalesce(expires, 0),
       attempts, coalesce(granted, 0), coalesce(crashes, 0), coalesce(snoozes, 0), coalesce(suspect, false), args, options
FROM dibs.queue_fetch($1, $2, $3, $4, $5, $6::bigint[], $7::bigint[], $8::int, $9::bool, $10::bool, $11::int, $12::bigint, $13::bigint);

-- [1] Writes that work begins (Q4): see queue_start.
SELECT v FROM dibs.queue_start($1, $2, $3, $4, $5::bigint[], $6::bigint[]) v;

-- [2] Ends runs: see queue_finish.
SELECT v FROM dibs.queue_finish($1, $2::bool, $3, $4, $5::bigint, $6::bigint[], $7::bigint[],
  $8::smallint[], $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::bool) v;

-- [3] The tasks that run under a worker's lease, and why one is to stop (empty: it is not). The worker is a scalar
-- subquery, so that its number is known before the index of running tasks is read.
SELECT t.id, t.token, coalesce(t.stop, '') FROM dibs.tasks t
WHERE t.state = 5 AND t.worker = (SELECT w.id FROM dibs.queue_workers w WHERE w.key = $2 AND w.owner = $3 AND w.token = $4 AND w.ns = $1)
ORDER BY t.id;

-- [4] The names of the numbers $1.
SELECT DISTINCT id, name FROM dibs.queue_names WHERE id = ANY ($1::bigint[]);

-- [5] Arms the queues $1 for $2 µs: the next enqueue notifies us (see queue_watch.go). In order, since two that arm
-- the same queues lock the same rows.
INSERT INTO dibs.queue_watched AS w (queue, watched)
SELECT DISTINCT v, dibs.now_us() + $2::bigint FROM unnest($1::bigint[]) v ORDER BY v
ON CONFLICT (queue) DO UPDATE SET watched = greatest(w.watched, excluded.watched);

-- [6] As [3], only tasks that are asked to stop. The partial index tasks_stop has few rows, so a heartbeat's look is
-- cheap.
SELECT t.id, t.token, t.stop FROM dibs.tasks t
WHERE t.state = 5 AND t.stop IS NOT NULL AND t.worker = (SELECT w.id FROM dibs.queue_workers w WHERE w.key = $2 AND w.owner = $3 AND w.token = $4 AND w.ns = $1)
ORDER BY t.id;

-- Gives tasks to a worker: see queue_fetch.
SELECT task, token, coalesce(place, 0), coalesce(queue, 0), coalesce(kind, 0), due, coalesce(enqueued, 0), coalesce(expires, 0),
       attempts, coalesce(granted, 0), coalesce(crashes, 0), coalesce(snoozes, 0), coalesce(suspect, false), args, cold
FROM dibs.queue_fetch($1, $2, $3, $4, $5, $6::bigint[], $7::bigint[], $8::int, $9::bool, $10::bool, $11::int);

-- Writes that work begins.
SELECT v FROM dibs.queue_start($1, $2, $3, $4, $5::bigint[], $6::bigint[]) v;

-- Ends runs: see queue_finish.
SELECT v FROM dibs.queue_finish($1, $2::bool, $3, $4, $5::bigint, $6::bigint[], $7::bigint[],
  $8::smallint[], $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::bool) v;

-- What runs under a worker's lease.
SELECT t.id, t.token, coalesce(t.stop, '') FROM dibs.tasks t
WHERE t.state = 5 AND t.worker = (SELECT w.id FROM dibs.queue_workers w WHERE w.key = $2 AND w.owner = $3 AND w.token = $4 AND w.ns = $1)
ORDER BY t.id;

-- Names of numbers.
SELECT DISTINCT id, name FROM dibs.queue_names WHERE id = ANY ($1::bigint[]);

-- Has who enqueues tell us of queues, for $2 µs.
INSERT INTO dibs.queue_watched AS w (queue, watched)
SELECT DISTINCT v, dibs.now_us() + $2::bigint FROM unnest($1::bigint[]) v ORDER BY v
ON CONFLICT (queue) DO UPDATE SET watched = greatest(w.watched, excluded.watched);

-- What of it is asked to stop.
SELECT t.id, t.token, t.stop FROM dibs.tasks t
WHERE t.state = 5 AND t.stop IS NOT NULL AND t.worker = (SELECT w.id FROM dibs.queue_workers w WHERE w.key = $2 AND w.owner = $3 AND w.token = $4 AND w.ns = $1)
ORDER BY t.id;

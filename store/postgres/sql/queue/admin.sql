-- [0] Counts the tasks of one part of a queue by kind and state, with the earliest instant at which one is due: of
-- the first $4 after ($2, $3). Returns also where the last of these stands, for the next page. So no statement reads
-- more than $4 rows, however long the queue is. TABLE, WHICH, FIRST and SECOND are filled in by newPart
-- (queue_read.go): a part is what one partial index has of a table, in its order.
WITH page AS MATERIALIZED (
  SELECT t.kind, t.state, t.due, FIRST AS a, SECOND AS b FROM dibs.TABLE t WHERE t.queue = $1::bigint AND WHICH AND (FIRST, SECOND) > ($2::bigint, $3::bigint)
  ORDER BY FIRST, SECOND LIMIT $4::int
)
SELECT p.kind, p.state, count(*), coalesce(min(p.due) FILTER (WHERE p.state IN (1, 2, 3, 4)), 0), max(l.a), max(l.b)
FROM page p, (SELECT a, b FROM page ORDER BY a DESC, b DESC LIMIT 1) l GROUP BY p.kind, p.state;

-- [1] Tasks of the queues $1, by id. $2 kind (0: all), $3 states (null: all), $4 tag, $5 unique key and $6 limit as
-- declared (empty: all), ids from $7 to $8, $9 rows at most, of tasks that ended or, if they have not, were enqueued
-- from $10 on. The caller chooses $7 and $8 so that few ids lie between: see [21] and [25]. DIRECTION is filled in.
SELECT t.id, t.sort_key, t.queue, t.kind, t.enqueued, t.due, t.token, coalesce(t.fetched, 0), coalesce(t.ended, 0), coalesce(t.expires, 0),
       t.attempts, t.granted, t.crashes, t.snoozes, t.state, t.suspect, t.args, coalesce(t.options, ''), coalesce(t.stop, ''), coalesce(t.reason, ''),
       t.lim, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since
FROM (
  SELECT * FROM dibs.all_tasks t
  WHERE t.queue = ANY ($1::bigint[])
    AND ($2::bigint = 0 OR t.kind = $2) AND ($3::smallint[] IS NULL OR t.state = ANY ($3))
    AND ($4::text = '' OR dibs.queue_options(t.options) -> 'tags' ? $4)
    AND ($5::text = '' OR dibs.queue_options(t.options) -> 'unique' ->> 'key' = $5)
    AND ($6::text = '' OR dibs.queue_options(t.options) -> 'limit' ->> 'key' = $6)
    AND t.id >= $7::bigint AND t.id <= $8::bigint
    AND CASE WHEN t.state >= 10 THEN coalesce(t.ended, 0) ELSE t.enqueued END >= $10::bigint
  ORDER BY t.id DIRECTION LIMIT $9::int
) t
LEFT JOIN dibs.queue_workers w ON w.id = t.worker
ORDER BY t.id DIRECTION;

-- [2] The attempts of the task $1, the oldest first.
SELECT a.n, a.outcome, a.started, a.ended, coalesce(w.host, ''), a.error
FROM dibs.task_attempts a LEFT JOIN dibs.queue_workers w ON w.id = a.worker
WHERE a.task = $1 ORDER BY a.token;

-- [3] The limit $1, and how many wait for it. The count walks the index of blocked tasks of this limit alone.
SELECT l.key, l.slots, (SELECT count(*) FROM dibs.tasks t WHERE t.lim = l.lim AND t.state = 4)
FROM dibs.queue_limits l WHERE l.lim = $1::uuid;

-- [4] The tasks that have slots of the limit $1, with their workers.
SELECT t.id, t.kind, coalesce(t.fetched, 0), w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since
FROM dibs.tasks t LEFT JOIN dibs.queue_workers w ON w.id = t.worker
WHERE t.lim = $1::uuid AND t.state = 5 ORDER BY t.id;

-- [5] Begins or changes the pause of queue $2 and kind $3 (empty: all); $4 and $5 are their numbers. [18] comes
-- before it.
INSERT INTO dibs.queue_pauses (ns, queue, kind, q, k, since, until, by, why)
VALUES ($1, $2, $3, $4, $5, dibs.now_us(), $6::bigint, $7, $8)
ON CONFLICT (ns, queue, kind) DO UPDATE SET since = excluded.since, until = excluded.until, by = excluded.by, why = excluded.why;

-- [6] Records an event.
SELECT dibs.queue_event($1, $2, $3);

-- [7] Ends a pause and records it. Returns a row if the pause held; one whose time was over is deleted without a
-- word.
WITH gone AS (
  DELETE FROM dibs.queue_pauses WHERE ns = $1 AND queue = $2 AND kind = $3 RETURNING until
)
SELECT dibs.queue_event($1, $4, $5) FROM gone WHERE until = 0 OR until > dibs.now_us();

-- [8] The pauses that hold now.
SELECT queue, kind, since, until, by, why FROM dibs.queue_pauses
WHERE ns = $1 AND (until = 0 OR until > dibs.now_us()) ORDER BY queue, kind;

-- [9] An operation on tasks: see queue_operate.
SELECT i, answer, other FROM dibs.queue_operate($1, $2, $3::bigint[], $4::bigint, $5::int, $6::bigint, $7::int, $8, $9, $10::bigint, $11::smallint[]);

-- [10] How tasks of this namespace stand, after the operation.
SELECT t.id, t.state FROM dibs.all_tasks t
WHERE t.id = ANY ($2::bigint[]) AND t.queue = ANY (ARRAY(SELECT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind));

-- [11] An operator's word on a limit: see queue_say.
SELECT dibs.queue_say($1::uuid, $2::uuid, $3::int, $4);

-- [12] Adds to counters, by adding rows: nobody waits for another. Maintain sums them up.
INSERT INTO dibs.queue_counts (ns, minute, queue, kind, name, n)
SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[]);

-- [13] Counters of [$2, $3), by queue, kind and name.
SELECT queue, kind, name, sum(n)::bigint FROM dibs.queue_counts WHERE ns = $1 AND minute >= $2::bigint AND minute < $3::bigint
GROUP BY queue, kind, name ORDER BY queue, kind, name;

-- [14] The names of queues and kinds.
SELECT DISTINCT id, kind, name FROM dibs.queue_names WHERE ns = $1;

-- [15] Drops the rates of the kinds $2.
DELETE FROM dibs.queue_rates WHERE ns = $1 AND k = ANY ($2::bigint[]);

-- [16] Declares rates; what a kind has used of its rate stays used. In the order of the kinds, as fetches lock them.
INSERT INTO dibs.queue_rates AS r (ns, k, every, burst, per, most)
SELECT $1, q.k, q.every, q.burst, q.per, q.most FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[]) q(k, every, burst, per, most)
ORDER BY q.k
ON CONFLICT (ns, k) DO UPDATE SET every = excluded.every, burst = excluded.burst, per = excluded.per, most = excluded.most;

-- [17] The rates, by name, and when each allows the next task: by its bucket, and by the parts that together reach
-- most.
SELECT n.name, r.every, greatest(r.busy + r.every - r.burst, coalesce((SELECT max(w.at) + r.per FROM (
    SELECT t.at, sum(t.n) OVER (ORDER BY t.at DESC) AS sum FROM unnest(r.taken_at, r.taken) t(at, n)) w WHERE w.sum >= r.most), 0))
FROM dibs.queue_rates r JOIN dibs.queue_names n ON n.id = r.k AND n.kind WHERE r.ns = $1;

-- [18] Waits for the fetches of the namespace that are under way, which share this lock (see queue_fetch). So once a
-- pause is acknowledged, no fetch that had not seen it gives anything. It is freed with the transaction.
SELECT pg_advisory_xact_lock(1684628081, hashtext($1));

-- [19] The queues of the namespace; $2: this one only, if it has it (0: all).
SELECT DISTINCT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind AND ($2::bigint = 0 OR id = $2);

-- [20] The ids of a queue's tasks in one part, $2 at most, from $3 on in its order: see [0].
SELECT t.id FROM dibs.TABLE t WHERE t.queue = $1::bigint AND WHICH AND FIRST >= $3::bigint ORDER BY FIRST, SECOND LIMIT $2::int;

-- [21] How far a step of [1] may read that begins at $1 and ends at $2: to the $3th row of each table. Ids of
-- other namespaces lie between, and this bounds how many of them are walked over.
SELECT least($2::bigint,
  (SELECT t.id FROM dibs.tasks t WHERE t.id >= $1::bigint AND t.id <= $2 ORDER BY t.id OFFSET $3::int LIMIT 1),
  (SELECT t.id FROM dibs.tasks_ended t WHERE t.id >= $1 AND t.id <= $2 ORDER BY t.id OFFSET $3 LIMIT 1));

-- [22] What runs in the namespace, $2 at most: by its workers, since running tasks are indexed by worker. Each half
-- of the UNION begins at a partial index of workers: those that are there, and those that are gone and may have tasks
-- still. OFFSET 0 keeps the index of workers in use.
SELECT t.id, t.queue, t.kind FROM dibs.queue_workers w, LATERAL (SELECT x.id, x.queue, x.kind FROM dibs.tasks x WHERE x.worker = w.id AND x.state = 5 OFFSET 0) t
WHERE w.ns = $1 AND w.gone = 0
UNION ALL
SELECT t.id, t.queue, t.kind FROM dibs.queue_workers w, LATERAL (SELECT x.id, x.queue, x.kind FROM dibs.tasks x WHERE x.worker = w.id AND x.state = 5 OFFSET 0) t
WHERE w.ns = $1 AND w.gone <> 0 AND w.unrescued
LIMIT $2::int;

-- [23] As [1], of the ids $11: where a queue has few tasks, they are found by its parts and read by id.
SELECT t.id, t.sort_key, t.queue, t.kind, t.enqueued, t.due, t.token, coalesce(t.fetched, 0), coalesce(t.ended, 0), coalesce(t.expires, 0),
       t.attempts, t.granted, t.crashes, t.snoozes, t.state, t.suspect, t.args, coalesce(t.options, ''), coalesce(t.stop, ''), coalesce(t.reason, ''),
       t.lim, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since
FROM (
  SELECT * FROM (SELECT x.* FROM dibs.all_tasks x WHERE x.id = ANY ($11::bigint[]) OFFSET 0) t
  WHERE t.queue = ANY ($1::bigint[])
    AND ($2::bigint = 0 OR t.kind = $2) AND ($3::smallint[] IS NULL OR t.state = ANY ($3))
    AND ($4::text = '' OR dibs.queue_options(t.options) -> 'tags' ? $4)
    AND ($5::text = '' OR dibs.queue_options(t.options) -> 'unique' ->> 'key' = $5)
    AND ($6::text = '' OR dibs.queue_options(t.options) -> 'limit' ->> 'key' = $6)
    AND t.id >= $7::bigint AND t.id <= $8::bigint
    AND CASE WHEN t.state >= 10 THEN coalesce(t.ended, 0) ELSE t.enqueued END >= $10::bigint
  ORDER BY t.id DIRECTION LIMIT $9::int
) t
LEFT JOIN dibs.queue_workers w ON w.id = t.worker
ORDER BY t.id DIRECTION;

-- [24] The operators' words on limits that stand, a thousand at most.
SELECT said_of, key, slots, said, said_by, said_at FROM dibs.queue_limits WHERE ns = $1 AND said IS NOT NULL ORDER BY key, lim LIMIT 1000;

-- [25] As [21], of a step that begins at $2 and goes down to $1.
SELECT greatest($1::bigint,
  (SELECT t.id FROM dibs.tasks t WHERE t.id >= $1 AND t.id <= $2::bigint ORDER BY t.id DESC OFFSET $3::int LIMIT 1),
  (SELECT t.id FROM dibs.tasks_ended t WHERE t.id >= $1 AND t.id <= $2 ORDER BY t.id DESC OFFSET $3 LIMIT 1));

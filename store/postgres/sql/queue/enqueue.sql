-- [0] Adds names that this process has not seen yet: $2 numbers, $3 whether it is a kind's, $4 names. There is no
-- unique index and no wait: two processes may add the same name, and the table then has it twice (see migration 1).
INSERT INTO dibs.queue_names (id, ns, kind, name)
SELECT q.id, $1, q.kind, q.name FROM unnest($2::bigint[], $3::bool[], $4::text[]) q(id, kind, name)
WHERE NOT EXISTS (SELECT FROM dibs.queue_names n WHERE n.id = q.id);

-- [1] Takes in tasks that have neither unique key nor limit. queue_now() comes before nextval(), in a subquery that
-- OFFSET 0 keeps apart: a transaction must have its id before it draws task ids, else a fetch could raise a band's
-- floor above them (see queue_bands in migration 1). Ids are drawn in the order of the items.
INSERT INTO dibs.tasks (id, sort_key, queue, kind, enqueued, due, expires, state, args, options)
SELECT f.id, f.rank::bigint << 53 | f.id, f.queue, f.kind, f.now, f.due, nullif(f.expires, 0), CASE WHEN f.due > f.now THEN 0 ELSE 1 END,
       f.args, nullif(f.options, '')
FROM (
  SELECT nextval('dibs.task_ids') AS id, n.now, CASE WHEN q.due = 0 THEN n.now ELSE q.due END + q.delay AS due,
         q.queue, q.kind, q.rank, q.args, q.options, q.expires
  FROM (SELECT dibs.queue_now() AS now OFFSET 0) n,
       unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
         q(queue, kind, rank, args, options, due, delay, expires)
) f
RETURNING id, state;

-- [2] Takes in tasks that have a unique key or a limit: see queue_admit.
SELECT i, answer, task, stands FROM dibs.queue_admit($1, $2, $3::int,
  $4::bigint[], $5::bigint[], $6::int[], $7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[],
  $12::uuid[], $13::bigint[], $14::smallint[], $15::bigint[], $16::uuid[], $17::int[], $18::smallint[]);

-- [3] Notifies workers that watch the queues $1: see queue_notify. Returns for how many queues somebody was notified.
SELECT count(*) FROM (SELECT DISTINCT unnest($1::bigint[])) q(v) WHERE dibs.queue_notify(v, $2::bool);

-- [4] Locks the limits of a batch: see queue_declare.
SELECT dibs.queue_declare($1, $2::uuid[], $3::text[], $4::int[], $5::uuid[]);

-- [5] Takes in tasks that differ in their arguments only: $5 has the arguments, and there is one each of all else.
-- The answer is one row, since a thousand rows cost both sides more than one array. The ids in ascending order are
-- those of the items; the state is that of all.
WITH taken AS (
  INSERT INTO dibs.tasks (id, sort_key, queue, kind, enqueued, due, expires, state, args, options)
  SELECT f.id, $3::bigint << 53 | f.id, $1, $2, f.now, f.due, nullif($8::bigint, 0), CASE WHEN f.due > f.now THEN 0 ELSE 1 END, f.args, nullif($4::text, '')
  FROM (
    SELECT nextval('dibs.task_ids') AS id, n.now, CASE WHEN $6::bigint = 0 THEN n.now ELSE $6 END + $7::bigint AS due, q.args
    FROM (SELECT dibs.queue_now() AS now OFFSET 0) n, unnest($5::text[]) q(args)
  ) f
  RETURNING id, state
)
SELECT array_agg(id), min(state) FROM taken;

-- [6] Takes in the tasks of a batch whose unique key is free, given in the order of the keys (Q1). The others get no
-- row here, and are left to queue_admit. If another transaction takes one of the keys at the same time, the insert
-- waits for it for $11 at most, fails, and nothing of the batch is done: queue_admit takes all of it then. $12 is
-- each item's position in the batch: ids are drawn in that order.
--
-- unnest in the list of columns gives rows as they are wanted; in FROM it would gather all of them first. `ORDER BY
-- t.uniq` in the subquery leaves the planner no cheaper plan than the index of keys.
INSERT INTO dibs.tasks (id, sort_key, queue, kind, enqueued, due, expires, state, args, options, uniq, hold, held)
SELECT f.id, f.rank::bigint << 53 | f.id, f.queue, f.kind, f.now, f.due, nullif(f.expires, 0), CASE WHEN f.due > f.now THEN 0 ELSE 1 END,
       f.args, nullif(f.options, ''), f.uniq, f.hold, true
FROM (
  SELECT q.ids[q.n] AS id, q.now, CASE WHEN q.due = 0 THEN q.now ELSE q.due END + q.delay AS due,
         q.queue, q.kind, q.rank, q.args, q.options, q.expires, q.uniq, q.hold
  FROM (
    SELECT b.now, b.ids, unnest($1::bigint[]) AS queue, unnest($2::bigint[]) AS kind, unnest($3::int[]) AS rank, unnest($4::text[]) AS args,
           unnest($5::text[]) AS options, unnest($6::bigint[]) AS due, unnest($7::bigint[]) AS delay, unnest($8::bigint[]) AS expires,
           unnest($9::uuid[]) AS uniq, unnest($10::bigint[]) AS hold, unnest($12::int[]) AS n
    FROM (SELECT dibs.queue_now() AS now, set_config('lock_timeout', $11, true),
                 ARRAY(SELECT nextval('dibs.task_ids') FROM (SELECT dibs.queue_now() OFFSET 0) n, generate_series(1, cardinality($12::int[]))) AS ids OFFSET 0) b
  ) q
) f
WHERE f.uniq NOT IN (SELECT t.uniq FROM dibs.tasks t WHERE t.uniq = ANY ($9) AND t.held ORDER BY t.uniq)
RETURNING id, state, uniq;

-- [7] The same, of tasks that differ in their arguments and keys only: $4 what tells of the keys, $5 arguments, $9
-- keys, $12 positions, and one each of all else.
INSERT INTO dibs.tasks (id, sort_key, queue, kind, enqueued, due, expires, state, args, options, uniq, hold, held)
SELECT f.id, $3::bigint << 53 | f.id, $1, $2, f.now, f.due, nullif($8::bigint, 0), CASE WHEN f.due > f.now THEN 0 ELSE 1 END,
       f.args, nullif(f.options, ''), f.uniq, $10::bigint, true
FROM (
  SELECT q.ids[q.n] AS id, q.now, CASE WHEN $6::bigint = 0 THEN q.now ELSE $6 END + $7::bigint AS due, q.args, q.options, q.uniq
  FROM (
    SELECT b.now, b.ids, unnest($4::text[]) AS options, unnest($5::text[]) AS args, unnest($9::uuid[]) AS uniq, unnest($12::int[]) AS n
    FROM (SELECT dibs.queue_now() AS now, set_config('lock_timeout', $11, true),
                 ARRAY(SELECT nextval('dibs.task_ids') FROM (SELECT dibs.queue_now() OFFSET 0) n, generate_series(1, cardinality($12::int[]))) AS ids OFFSET 0) b
  ) q
) f
WHERE f.uniq NOT IN (SELECT t.uniq FROM dibs.tasks t WHERE t.uniq = ANY ($9) AND t.held ORDER BY t.uniq)
RETURNING id, state, uniq;

-- [8] Adds bands that this process has not seen yet (see queue_bands in migration 1). A band may be there twice, as a
-- name may.
INSERT INTO dibs.queue_bands (queue, kind, rank, floor)
SELECT q.queue, q.kind, q.rank, q.rank::bigint << 53 FROM unnest($1::bigint[], $2::bigint[], $3::int[]) q(queue, kind, rank)
WHERE NOT EXISTS (SELECT FROM dibs.queue_bands l WHERE l.queue = q.queue AND l.kind = q.kind AND l.rank = q.rank);

-- [0] Keeps what a process says of itself, at $4 (0: now, which is the latest). Returns now.
INSERT INTO dibs.processes (ns, id, seen, record) VALUES ($1, $2, least(coalesce(nullif($4::bigint, 0), dibs.now_us()), dibs.now_us()), $3)
ON CONFLICT (id, ns) DO UPDATE SET seen = excluded.seen, record = excluded.record
RETURNING dibs.now_us();

-- [1] When the oldest process reported, and when the latest but $2 did; 0: there is none. `ns || ''` is the expression
-- of an index that only these statements can use: see migration 1.
SELECT coalesce((SELECT seen FROM dibs.processes WHERE ns || '' = $1 ORDER BY seen, id LIMIT 1), 0),
       coalesce((SELECT seen FROM dibs.processes WHERE ns || '' = $1 ORDER BY seen DESC, id DESC LIMIT 1 OFFSET $2::int), 0);

-- [2] Deletes the oldest processes that reported before $2, at most $3. One that another statement has locked reports
-- just now, or goes.
DELETE FROM dibs.processes WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM dibs.processes WHERE ns || '' = $1 AND seen < $2::bigint ORDER BY seen, id LIMIT $3::int FOR UPDATE SKIP LOCKED));

-- [3] The processes, the latest to report first, and now, in rows of their own: it is told if there is none, too.
SELECT dibs.now_us(), NULL::bytea
UNION ALL
(SELECT seen, record FROM dibs.processes WHERE ns || '' = $1 ORDER BY seen DESC, id DESC LIMIT $2::int);

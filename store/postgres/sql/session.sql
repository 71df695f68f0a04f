-- [0] Tries to take the named locks $1, without waiting (L11). Returns whether each was had, in their order. The
-- server counts how often a session takes a lock, so the caller never asks for one that it has.
SELECT pg_try_advisory_lock(q.id) FROM unnest($1::bigint[]) WITH ORDINALITY AS q(id, i) ORDER BY q.i;

-- [1] Frees named locks, each once.
SELECT count(pg_advisory_unlock(q.id)) FROM unnest($1::bigint[]) AS q(id);

-- [2] Who holds the named lock $1. An advisory lock of one bigint is shown as its upper and lower half with objsubid
-- 1.
SELECT a.pid::bigint, coalesce(host(a.client_addr), 'the database server'), coalesce(a.application_name, '')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = $1::bigint
LIMIT 1;

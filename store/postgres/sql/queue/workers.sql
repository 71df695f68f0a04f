-- [0] Records a worker, if its lease is live. Returns a row if so. A worker that was thought gone is back.
INSERT INTO dibs.queue_workers AS w (ns, key, owner, token, host, pid, queues, kinds, slots, since)
SELECT l.ns, l.key, l.owner, l.token, $5, $6, $7::text[], $8::text[], $9, dibs.now_us()
FROM dibs.leases l WHERE l.key = $2 AND l.ns = $1 AND l.owner = $3 AND l.token = $4 AND l.expires > dibs.now_us()
ON CONFLICT (key, owner, token, ns) DO UPDATE
  SET host = excluded.host, pid = excluded.pid, queues = excluded.queues, kinds = excluded.kinds, slots = excluded.slots, gone = 0
RETURNING 1;

-- [1] Forgets a worker that leaves, and rescues what it has, $5 tasks at most: see queue_leave.
SELECT dibs.queue_leave($1, $2, $3, $4, $5::int);

-- [2] The workers whose lease is live, and how many tasks each has.
SELECT w.id, w.key, w.owner, w.token, w.host, w.pid, w.queues, w.kinds, w.slots, w.since,
       (SELECT count(*) FROM dibs.tasks t WHERE t.worker = w.id AND t.state = 5)
FROM dibs.queue_workers w JOIN dibs.leases l ON l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token
WHERE w.ns = $1 AND w.gone = 0 AND l.expires > dibs.now_us()
ORDER BY w.host, w.pid;

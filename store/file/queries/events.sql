-- Events from ?1 up to ?2, the newest first, ?3 at most. This and the other pages of history read one index in its
-- order.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events WHERE at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

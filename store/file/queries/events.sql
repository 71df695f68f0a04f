SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events WHERE at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

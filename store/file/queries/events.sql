SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events WHERE (?1 = '' OR job = ?1) AND (?2 = '' OR run_id = ?2) AND at >= ?3 AND at < ?4
ORDER BY at DESC, id DESC LIMIT ?5;

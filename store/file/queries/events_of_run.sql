-- Those of one run, ?4, and of one job, ?5, if that is not empty.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events INDEXED BY dibs_events_run
WHERE run_id <> '' AND run_id = ?4 AND (?5 = '' OR job = ?5) AND at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

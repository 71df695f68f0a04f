-- Those of one job, ?4.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events INDEXED BY dibs_events_job WHERE job <> '' AND job = ?4 AND at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

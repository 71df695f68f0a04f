-- Events of the run ?4, and of the job ?5 unless that is empty, as in events.sql.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events INDEXED BY dibs_events_run
WHERE run_id <> '' AND run_id = ?4 AND (?5 = '' OR job = ?5) AND at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

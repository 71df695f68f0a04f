-- Events of the job ?4, as in events.sql. `job <> ''` repeats the condition of the partial index, and INDEXED BY
-- makes a query that does not fit the index an error instead of a scan.
SELECT id, at, kind, key, job, tick, run_id, host, reason
FROM dibs_events INDEXED BY dibs_events_job WHERE job <> '' AND job = ?4 AND at >= ?1 AND at < ?2 ORDER BY at DESC, id DESC LIMIT ?3;

-- Runs of the job ?4, as in runs.sql.
SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs INDEXED BY dibs_runs_job WHERE job = ?4 AND started >= ?1 AND started < ?2 ORDER BY started DESC, id DESC LIMIT ?3;

-- One run.
SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs WHERE id = ?1;

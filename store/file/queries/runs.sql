-- Runs that started in [?1, ?2), the latest first, ?3 at most.
SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs WHERE started >= ?1 AND started < ?2 ORDER BY started DESC, id DESC LIMIT ?3;

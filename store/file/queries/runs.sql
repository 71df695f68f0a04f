SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs WHERE (?1 = '' OR job = ?1) AND (?2 = '' OR id = ?2) AND started >= ?3 AND started < ?4
ORDER BY started DESC, id DESC LIMIT ?5;

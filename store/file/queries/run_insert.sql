-- Inserts a run. A run that is there stays as it is.
INSERT INTO dibs_runs (id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT (id) DO NOTHING;

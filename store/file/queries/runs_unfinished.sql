-- Unfinished runs without a tick. A run with a tick is settled by the process that takes the tick over.
SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs WHERE outcome = '' AND tick = 0;

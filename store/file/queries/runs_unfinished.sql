-- Those with a tick are the business of whoever takes that over.
SELECT id, job, tick, owner, token, host, pid, command, outcome, reason, inferred, started, ended, attempts, lease_key, cause
FROM dibs_runs WHERE outcome = '' AND tick = 0;

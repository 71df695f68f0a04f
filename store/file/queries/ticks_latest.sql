-- The latest ticks of the job ?1, ?2 at most.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks WHERE job = ?1 ORDER BY at DESC LIMIT ?2;

-- One tick.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks WHERE job = ?1 AND at = ?2;

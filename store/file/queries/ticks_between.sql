-- The rows of a job that settling (?2, ?3] can meet.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks WHERE job = ?1 AND at > ?2 AND at <= ?3 ORDER BY at;

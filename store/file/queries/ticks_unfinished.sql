-- All if ?1 is empty.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks WHERE state <> 'closed' AND (?1 = '' OR job = ?1) ORDER BY at, job;

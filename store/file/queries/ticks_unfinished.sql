-- Unfinished ticks by job and instant (T2, T3): of the names in [?1, ?2), or from ?1 on if ?2 is empty, after (?3,
-- ?4); ?5 at most.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks INDEXED BY dibs_ticks_unfinished
WHERE state <> 'closed' AND job >= ?1 AND (?2 = '' OR job < ?2) AND (job, at) > (?3, ?4) ORDER BY job, at LIMIT ?5;

-- A range counts if any of it lies inside [?2, ?3).
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks WHERE (?1 = '' OR job = ?1) AND (?5 = '' OR run_id = ?5) AND last >= ?2 AND at < ?3 ORDER BY at DESC, job LIMIT ?4;

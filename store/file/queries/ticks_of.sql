-- Ticks of the job ?5, as in ticks.sql.
SELECT * FROM (
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks WHERE job = ?5 AND at >= ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3
) UNION ALL SELECT * FROM (
    -- Ranges of a job do not overlap: the first one that ends at or after ?1 is the only one that may begin before.
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks INDEXED BY dibs_ticks_ranges_of WHERE job = ?5 AND last > at AND last >= ?1 ORDER BY last LIMIT 1
) WHERE at < ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3;

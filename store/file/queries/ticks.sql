-- Ticks in [?1, ?2), the latest first, ?3 at most; of the run ?4 unless that is empty. A range counts if any of it
-- lies inside. The few ranges that begin before ?1 are found by where they end, so that nothing older is read.
SELECT * FROM (
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks INDEXED BY dibs_ticks_at WHERE at >= ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3
) UNION ALL SELECT * FROM (
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks INDEXED BY dibs_ticks_ranges WHERE ?1 > -9223372036854775808 AND last > at AND last >= ?1 AND at < ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3
) ORDER BY at DESC, job LIMIT ?3;

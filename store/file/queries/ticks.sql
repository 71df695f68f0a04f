-- A range counts if any of it lies inside [?1, ?2). The few that begin before it are found by where they end, so that
-- nothing older is read.
SELECT * FROM (
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks INDEXED BY dibs_ticks_at WHERE at >= ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3
) UNION ALL SELECT * FROM (
    SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
    FROM dibs_ticks INDEXED BY dibs_ticks_ranges WHERE ?1 > -9223372036854775808 AND last > at AND last >= ?1 AND at < ?1 AND at < ?2 AND (?4 = '' OR run_id = ?4) ORDER BY at DESC, job LIMIT ?3
) ORDER BY at DESC, job LIMIT ?3;

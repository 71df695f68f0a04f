-- Unfinished ticks by job and instant (T2, T3): after (?1, ?2), of the names before ?3, or of all if ?3 is empty; ?4
-- at most. A blob is beyond all names: SQLite takes no bound of an index from an OR.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks INDEXED BY dibs_ticks_unfinished
WHERE state <> 'closed' AND (job, at) > (?1, ?2) AND job < CASE ?3 WHEN '' THEN x'' ELSE ?3 END ORDER BY job, at LIMIT ?4;

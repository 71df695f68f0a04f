-- Ticks of the application ?1 (with its slash) that may still have to be run (tick.Tick's Owed), from ?2 on, the
-- latest first, after (?3, ?4); ?5 at most. The condition repeats that of the partial index word for word.
SELECT job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended
FROM dibs_ticks INDEXED BY dibs_ticks_owed
WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window')
    AND substr(job, 1, instr(job, '/')) = ?1 AND at >= ?2 AND (at, job) < (?3, ?4) ORDER BY at DESC, job DESC LIMIT ?5;

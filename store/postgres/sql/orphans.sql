-- Unfinished ticks whose lease is not live, oldest first: of job $2, or of all where it is empty.
SELECT t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM dibs.tick_rows t
WHERE t.ns = $1 AND t.state <> 'closed' AND ($2::bytea = '' OR t.job = $2) AND NOT t.live
ORDER BY t.at, t.job
LIMIT $3::int;

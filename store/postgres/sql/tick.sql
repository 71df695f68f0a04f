-- What a take is answered from: the clock, whether the lease $4 $5 $6 is live, an empty run (so that it scans as a
-- start does), and the tick of job $2 at $3. It returns one row, also where there is no such tick.
SELECT dibs.now_us(),
       EXISTS (SELECT FROM dibs.leases l WHERE l.ns = $1 AND l.key = $4::bytea AND l.owner = $5 AND l.token = $6::bigint
                 AND l.expires > dibs.now_us()),
       '', 0::bigint, '',
       t.job, t.at, t.through, t.count, t.state, t.lease_key, t.lease_owner, t.lease_token, t.claimant,
       t.run_id, t.outcome, t.reason, t.inferred, t.reruns, t.claimed, t.started, t.ended, t.live
FROM (SELECT) one
LEFT JOIN dibs.tick_rows t ON t.ns = $1 AND t.job = $2::bytea AND t.at = $3::bigint;

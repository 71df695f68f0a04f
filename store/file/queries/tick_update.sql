-- Writes a tick as it was decided in Go, in the transaction that read it.
UPDATE dibs_ticks SET last = ?3, count = ?4, state = ?5, lease_key = ?6, lease_owner = ?7, lease_token = ?8, claimant = ?9,
    run_id = ?10, outcome = ?11, reason = ?12, inferred = ?13, reruns = ?14, claimed = ?15, started = ?16, ended = ?17
WHERE job = ?1 AND at = ?2;

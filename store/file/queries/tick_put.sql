-- Writes a tick that was recorded elsewhere first. A later copy replaces an earlier one.
INSERT OR REPLACE INTO dibs_ticks (job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17);

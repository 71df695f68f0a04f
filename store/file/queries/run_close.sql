-- Closes a run, fenced by id, owner and token (T9). Once ended, a run is ended; only what others concluded is amended
-- by its own report (T3).
UPDATE dibs_runs SET outcome = ?4, reason = ?5, inferred = ?6, ended = ?7, attempts = ?8
WHERE id = ?1 AND owner = ?2 AND token = ?3 AND (outcome = '' OR (inferred = 1 AND ?6 = 0));

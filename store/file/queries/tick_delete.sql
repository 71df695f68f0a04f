-- Deletes a tick.
DELETE FROM dibs_ticks WHERE job = ?1 AND at = ?2;

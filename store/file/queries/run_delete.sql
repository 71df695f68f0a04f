-- Deletes a run.
DELETE FROM dibs_runs WHERE id = ?1;

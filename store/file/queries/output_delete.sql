-- Deletes what a run printed.
DELETE FROM dibs_outputs WHERE run_id = ?1;

-- What a run printed.
SELECT output FROM dibs_outputs WHERE run_id = ?1;

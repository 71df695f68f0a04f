-- What a run printed.
SELECT substr(output, 1, ?2) FROM dibs_outputs WHERE run_id = ?1;

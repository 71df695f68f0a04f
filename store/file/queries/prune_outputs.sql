DELETE FROM dibs_outputs WHERE run_id IN (SELECT id FROM dibs_runs WHERE ended <> 0 AND ended < ?1);

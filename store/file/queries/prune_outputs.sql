DELETE FROM outputs WHERE run_id IN (SELECT id FROM runs WHERE ended <> 0 AND ended < ?1);

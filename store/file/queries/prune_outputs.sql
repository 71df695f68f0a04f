DELETE FROM dibs_outputs WHERE run_id IN
    (SELECT id FROM dibs_runs WHERE started < ?1 AND ended <> 0 AND ended < ?1 ORDER BY started, id LIMIT ?2);

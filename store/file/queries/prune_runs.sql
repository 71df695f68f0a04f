DELETE FROM dibs_runs WHERE ended <> 0 AND ended < ?1;

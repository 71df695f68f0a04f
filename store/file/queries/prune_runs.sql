DELETE FROM runs WHERE ended <> 0 AND ended < ?1;

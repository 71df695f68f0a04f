-- A run starts before it ends: the index of starts finds the old ones. prune_outputs.sql selects the same.
DELETE FROM dibs_runs WHERE id IN
    (SELECT id FROM dibs_runs WHERE started < ?1 AND ended <> 0 AND ended < ?1 ORDER BY started, id LIMIT ?2);

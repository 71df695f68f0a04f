-- A page of the registry: names in [?1, ?2), or from ?1 on if ?2 is empty (ticks_unfinished.sql), ?3 at most. Of a
-- definition they have tick.MaxDefinition characters and one more at most.
SELECT name, substr(definition, 1, 6291457), generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past FROM dibs_jobs
WHERE name >= ?1 AND name < CASE ?2 WHEN '' THEN x'' ELSE ?2 END ORDER BY name LIMIT ?3;

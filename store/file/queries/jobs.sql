-- A page of the registry: names in [?1, ?2), or from ?1 on if ?2 is empty, after ?3; ?4 at most. Of a definition they
-- have tick.MaxDefinition characters and one more at most.
SELECT name, substr(definition, 1, 6291457), generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past FROM dibs_jobs
WHERE name >= ?1 AND (?2 = '' OR name < ?2) AND name > ?3 ORDER BY name LIMIT ?4;

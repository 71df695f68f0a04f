-- Jobs by name. ?1 is their names as a JSON list. Of a definition they have tick.MaxDefinition characters and
-- one more at most.
SELECT name, substr(definition, 1, 6291457), generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past FROM dibs_jobs
WHERE name IN (SELECT value FROM json_each(?1)) ORDER BY name;

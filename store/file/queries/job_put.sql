INSERT INTO jobs (name, definition, generation, since, mark, removed) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, generation = excluded.generation,
    since = excluded.since, mark = excluded.mark, removed = excluded.removed;

-- Writes a job as it was decided in Go. A writing transaction has the database to itself, so nothing is compared
-- here.
INSERT INTO dibs_jobs (name, definition, generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, generation = excluded.generation,
    since = excluded.since, mark = excluded.mark, removed = excluded.removed,
    paused_since = excluded.paused_since, paused_until = excluded.paused_until,
    paused_by = excluded.paused_by, paused_why = excluded.paused_why, paused_resumed = excluded.paused_resumed,
    past = excluded.past;

-- One job.
SELECT name, definition, generation, since, mark, removed, paused_since, paused_until, paused_by, paused_why, paused_resumed, past FROM dibs_jobs WHERE name = ?1;

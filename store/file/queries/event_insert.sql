-- An id is that of an event which came with one, and may have come before.
INSERT INTO dibs_events (at, kind, key, job, tick, run_id, host, reason, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING;

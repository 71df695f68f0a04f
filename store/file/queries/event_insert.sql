-- Adds an event. ?9 is the id with which an event came, or NULL. An id that is there already changes nothing, so an
-- append that is repeated adds nothing twice.
INSERT INTO dibs_events (at, kind, key, job, tick, run_id, host, reason, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING;

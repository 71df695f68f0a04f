-- Deletes the oldest events from before ?1, ?2 at most.
DELETE FROM dibs_events WHERE id IN (SELECT id FROM dibs_events WHERE at < ?1 ORDER BY at, id LIMIT ?2);

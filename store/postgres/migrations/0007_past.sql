-- Schema dibs, version 7: the definitions before this one that left ticks open, as JSON.
ALTER TABLE dibs.jobs ADD COLUMN past text NOT NULL DEFAULT '';

INSERT INTO dibs.migrations (version) VALUES (7);

-- Schema dibs, version 2: who asked for a run that no schedule did, and why, as JSON; empty for none.
ALTER TABLE dibs.runs ADD COLUMN cause text NOT NULL DEFAULT '';

INSERT INTO dibs.migrations (version) VALUES (2);

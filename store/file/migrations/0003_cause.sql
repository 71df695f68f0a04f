-- Who asked for a run that no schedule did, and why, as JSON; 'null' for none.
ALTER TABLE dibs_runs ADD COLUMN cause TEXT NOT NULL DEFAULT 'null';

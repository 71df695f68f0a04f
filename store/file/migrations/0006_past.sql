-- The definitions before this one that left ticks open, as JSON.
ALTER TABLE dibs_jobs ADD COLUMN past TEXT NOT NULL DEFAULT '';

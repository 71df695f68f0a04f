-- Schema dibs, version 5: whether somebody ended the pause, at paused_until; else that was set beforehand.
ALTER TABLE dibs.jobs ADD COLUMN paused_resumed boolean NOT NULL DEFAULT false;

INSERT INTO dibs.migrations (version) VALUES (5);

-- Whether somebody ended the pause, at paused_until; else that was set beforehand.
ALTER TABLE dibs_jobs ADD COLUMN paused_resumed INTEGER NOT NULL DEFAULT 0;

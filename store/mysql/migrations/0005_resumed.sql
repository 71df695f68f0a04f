-- Version 5: whether somebody ended the pause, at paused_until; else that was set beforehand.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_jobs' AND column_name = 'paused_resumed'),
  'DO 0', 'ALTER TABLE dibs_jobs ADD COLUMN paused_resumed TINYINT NOT NULL DEFAULT 0');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

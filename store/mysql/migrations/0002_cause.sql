-- Version 2: who asked for a run that no schedule did, and why, as JSON. It may be run again, as all of these may:
-- the server may know no ADD COLUMN IF NOT EXISTS, so the column is looked for first.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_runs' AND column_name = 'cause'),
  'DO 0', 'ALTER TABLE dibs_runs ADD COLUMN cause TEXT');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

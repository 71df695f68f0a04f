-- Version 7: the definitions before this one that left ticks open, as JSON; NULL: there is none.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_jobs' AND column_name = 'past'),
  'DO 0', 'ALTER TABLE dibs_jobs ADD COLUMN past MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

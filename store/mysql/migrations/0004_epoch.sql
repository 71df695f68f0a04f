-- Version 4: the epoch of a namespace grows with each change of its identity. A client that has seen a higher one
-- knows that this is an older state of the data.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_meta' AND column_name = 'epoch'),
  'DO 0', 'ALTER TABLE dibs_meta ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

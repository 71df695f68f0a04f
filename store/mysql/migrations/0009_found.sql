-- Version 9: what is found in steps. dibs_pruned is where the last step of pruning ended, among rows that are old and
-- have to stay. range_end finds ranges of ticks by their end, for queries from an instant on.
CREATE TABLE IF NOT EXISTS dibs_pruned (
  ns   VARBINARY(64)  NOT NULL,
  kind VARBINARY(16)  NOT NULL,
  at   BIGINT         NOT NULL DEFAULT 0,
  name VARBINARY(530) NOT NULL DEFAULT '',
  PRIMARY KEY (ns, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_ticks' AND column_name = 'range_end'),
  'DO 0', 'ALTER TABLE dibs_ticks ADD COLUMN range_end BIGINT AS (NULLIF(through, 0)) VIRTUAL, ADD KEY ranges (ns, range_end, at, job)');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

-- Version 8: an operator's word on a limit stands above what its tasks declare, until it is taken back (Q5). declared
-- is what they declared last while the word stands, else 0.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_task_limits' AND column_name = 'declared'),
  'DO 0', 'ALTER TABLE dibs_task_limits ADD COLUMN declared INT NOT NULL DEFAULT 0, ADD COLUMN said_by VARCHAR(1000) NOT NULL DEFAULT \'\',
    ADD COLUMN said BIGINT NOT NULL DEFAULT 0, ADD KEY said (ns, declared)');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

-- Version 6: unfinished ticks by job, and ticks that may still have to be run by application (tick.Tick's Owed). Each
-- has an index over a generated column that is NULL for all other ticks, so these are not in the way. A job's
-- application is its name up to the first slash.
SET @dibs_ddl = IF(EXISTS (SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'dibs_ticks' AND column_name = 'open_job'),
  'DO 0', 'ALTER TABLE dibs_ticks
    ADD COLUMN open_job VARBINARY(530) AS (IF(state = ''closed'', NULL, job)) VIRTUAL,
    ADD COLUMN owed_app VARBINARY(530) AS (IF(state = ''closed'' AND lease_token > 0
      AND (outcome IN (''lost'', ''crashed'', ''canceled'', ''missed'', ''unavailable'', ''paused'')
        OR outcome = ''skipped'' AND reason = ''window''), LEFT(job, LOCATE(''/'', job)), NULL)) VIRTUAL,
    ADD KEY unfinished_by_job (ns, open_job, at), ADD KEY owed (ns, owed_app, at, job)');
PREPARE dibs_ddl FROM @dibs_ddl;
EXECUTE dibs_ddl;
DEALLOCATE PREPARE dibs_ddl;

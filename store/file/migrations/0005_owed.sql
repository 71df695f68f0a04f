-- Unfinished ticks by job, and ticks that may still have to be run by application (tick.Tick's Owed). A job's
-- application is its name up to the first slash. The queries that want these indexes repeat the conditions word for
-- word.
DROP INDEX dibs_ticks_unfinished;
CREATE INDEX dibs_ticks_unfinished ON dibs_ticks (job, at) WHERE state <> 'closed';
CREATE INDEX dibs_ticks_owed ON dibs_ticks (substr(job, 1, instr(job, '/')), at, job)
    WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window');
-- Ranges are found by where they end.
CREATE INDEX dibs_ticks_ranges ON dibs_ticks (last) WHERE last > at;

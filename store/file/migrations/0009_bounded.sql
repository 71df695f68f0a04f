-- An index finds what a step looks at, however much there is beside it (promise 26).
CREATE INDEX dibs_lanes_of ON dibs_lanes (queue, id);
CREATE INDEX dibs_workers_ended ON dibs_workers (ended) WHERE ended > 0;
-- Retention passes over tasks whose window is open.
DROP INDEX dibs_tasks_ended;
CREATE INDEX dibs_tasks_ended ON dibs_tasks (state, ended) WHERE state >= 5 AND window = 0;
-- Tasks in line for a limit, suspects apart from the others.
CREATE INDEX dibs_tasks_parts ON dibs_tasks (limited, state, lane, (class > 0), rank, id) WHERE limited IS NOT NULL AND line = 1 AND state IN (1, 2);
-- Tasks that a displacing one may supersede.
CREATE INDEX dibs_tasks_rivals ON dibs_tasks (limited, id) WHERE limited IS NOT NULL AND state IN (1, 2) AND (displaced = 1 OR line = 0);
-- A limit with more lanes to bring in order than one step may: the lane at which to go on, and the one at which the
-- round ends. -1: it is in order.
ALTER TABLE dibs_limits ADD COLUMN round_at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE dibs_limits ADD COLUMN round_end INTEGER NOT NULL DEFAULT 0;
CREATE INDEX dibs_limits_round ON dibs_limits (id) WHERE round_at >= 0;
-- Where pruning goes on: rows that it passed over, since they must stay, are looked at once a round.
CREATE TABLE dibs_turns (
    what TEXT    PRIMARY KEY,
    at   INTEGER NOT NULL,
    name TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- The history of one job or run is found without a look at others.
CREATE INDEX dibs_ticks_ranges_of ON dibs_ticks (job, last) WHERE last > at;
CREATE INDEX dibs_events_job ON dibs_events (job, at, id) WHERE job <> '';
CREATE INDEX dibs_events_run ON dibs_events (run_id, at, id) WHERE run_id <> '';

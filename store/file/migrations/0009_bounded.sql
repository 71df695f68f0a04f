-- What a step looks at is found by an index, however much there is beside it.
CREATE INDEX dibs_lanes_of ON dibs_lanes (queue, id);
CREATE INDEX dibs_workers_ended ON dibs_workers (ended) WHERE ended > 0;
-- Retention passes over those whose window is open.
DROP INDEX dibs_tasks_ended;
CREATE INDEX dibs_tasks_ended ON dibs_tasks (state, ended) WHERE state >= 5 AND window = 0;
-- Those in line for a limit, suspects apart from the others.
CREATE INDEX dibs_tasks_parts ON dibs_tasks (limited, state, lane, (class > 0), rank, id) WHERE limited IS NOT NULL AND line = 1 AND state IN (1, 2);
-- Those that one which displaces may supersede.
CREATE INDEX dibs_tasks_rivals ON dibs_tasks (limited, id) WHERE limited IS NOT NULL AND state IN (1, 2) AND (displaced = 1 OR line = 0);
-- Where more lanes are to be brought up to a limit than a step may: the lane to go on with, and that at which the round ends. -1: it is done.
ALTER TABLE dibs_limits ADD COLUMN round_at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE dibs_limits ADD COLUMN round_end INTEGER NOT NULL DEFAULT 0;
CREATE INDEX dibs_limits_round ON dibs_limits (id) WHERE round_at >= 0;
-- Where pruning goes on: what it passed over, since it must stay, it looks at once a round.
CREATE TABLE dibs_turns (
    what TEXT    PRIMARY KEY,
    at   INTEGER NOT NULL,
    name TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- What is told of a job or a run is found without a look at the others'.
CREATE INDEX dibs_ticks_ranges_of ON dibs_ticks (job, last) WHERE last > at;
CREATE INDEX dibs_events_job ON dibs_events (job, at, id) WHERE job <> '';
CREATE INDEX dibs_events_run ON dibs_events (run_id, at, id) WHERE run_id <> '';

-- The queue. Instants are as in version 1. States: 0 scheduled, 1 available, 2 blocked, 3 running, 4 retryable;
-- 5 succeeded, 6 failed, 7 discarded, 8 canceled, 9 crashed.

CREATE TABLE dibs_lanes (
    id    INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    UNIQUE (queue, kind)
) STRICT;

CREATE TABLE dibs_workers (
    id    INTEGER PRIMARY KEY,
    key   TEXT    NOT NULL, -- of its lease, with owner and token
    owner TEXT    NOT NULL,
    token INTEGER NOT NULL,
    host  TEXT    NOT NULL DEFAULT '',
    pid   INTEGER NOT NULL DEFAULT 0,
    does  TEXT    NOT NULL DEFAULT '[[],[]]', -- queues and kinds, JSON
    slots INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0, -- when it left, or was found dead
    UNIQUE (owner, token, key)
) STRICT;
CREATE INDEX dibs_workers_there ON dibs_workers (id) WHERE ended = 0;

-- The limits (Q5). How many tasks run under one is counted from dibs_tasks_slots, and stored nowhere.
CREATE TABLE dibs_limits (
    id    INTEGER PRIMARY KEY,
    hash  BLOB    NOT NULL UNIQUE,
    key   TEXT    NOT NULL,
    max   INTEGER NOT NULL,
    token INTEGER NOT NULL DEFAULT 0 -- the largest that was given under it
) STRICT;

-- One row for each task, living or ended.
CREATE TABLE dibs_tasks (
    id        INTEGER PRIMARY KEY AUTOINCREMENT, -- an id is never given twice
    lane      INTEGER NOT NULL,
    state     INTEGER NOT NULL,
    class     INTEGER NOT NULL, -- 0 nothing is known against it, 1 suspect, 2 suspect that took a worker down
    rank      INTEGER NOT NULL, -- minus the priority; 100 less at the front
    priority  INTEGER NOT NULL,
    run_at    INTEGER NOT NULL,
    enqueued  INTEGER NOT NULL,
    expires   INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    granted   INTEGER NOT NULL,
    crashes   INTEGER NOT NULL,
    snoozes   INTEGER NOT NULL,
    begun     INTEGER NOT NULL, -- its start was written under its token
    displaced INTEGER NOT NULL, -- it has asked for its slot, and waits like others
    token     INTEGER NOT NULL,
    worker    INTEGER NOT NULL, -- who has it, or had it last; 0: nobody
    completed INTEGER NOT NULL, -- the token of its last completion
    ukey      BLOB, -- while it holds its unique key
    window    INTEGER NOT NULL, -- until when it holds it after it succeeded
    limited   INTEGER, -- its limit
    line      INTEGER NOT NULL, -- it stands in line for its limit, rather than meeting a fetch in the open
    args      BLOB NOT NULL,
    cold      BLOB NOT NULL,
    reason    TEXT NOT NULL,
    stop      TEXT NOT NULL
) STRICT;

-- Each index serves one step, and has only the rows that this step may meet.
CREATE UNIQUE INDEX dibs_tasks_unique ON dibs_tasks (ukey) WHERE ukey IS NOT NULL;
CREATE INDEX dibs_tasks_ready ON dibs_tasks (lane, class, rank, id) WHERE state = 1;
CREATE INDEX dibs_tasks_due ON dibs_tasks (lane, run_at, id) WHERE state IN (0, 4);
CREATE INDEX dibs_tasks_line ON dibs_tasks (limited, line, state, lane, rank, id) WHERE limited IS NOT NULL AND state IN (1, 2);
CREATE INDEX dibs_tasks_slots ON dibs_tasks (limited) WHERE limited IS NOT NULL AND state = 3;
CREATE INDEX dibs_tasks_running ON dibs_tasks (worker) WHERE state = 3;
CREATE INDEX dibs_tasks_expire ON dibs_tasks (expires) WHERE expires > 0 AND state IN (0, 1, 2, 4);
CREATE INDEX dibs_tasks_window ON dibs_tasks (window) WHERE window > 0;
CREATE INDEX dibs_tasks_ended ON dibs_tasks (state, ended) WHERE state >= 5;
CREATE INDEX dibs_tasks_lane ON dibs_tasks (lane, state, run_at);

CREATE TABLE dibs_attempts (
    task    INTEGER NOT NULL,
    i       INTEGER NOT NULL, -- in the order of their ends
    attempt TEXT    NOT NULL, -- JSON
    PRIMARY KEY (task, i)
) STRICT, WITHOUT ROWID;

CREATE TABLE dibs_pauses (
    queue TEXT    NOT NULL,
    kind  TEXT    NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL, -- 0: until somebody resumes
    by    TEXT    NOT NULL,
    why   TEXT    NOT NULL,
    PRIMARY KEY (queue, kind)
) STRICT, WITHOUT ROWID;

-- Rates as buckets: each task takes each out, and the bucket is full again at full.
CREATE TABLE dibs_rates (
    kind  TEXT    PRIMARY KEY,
    each  INTEGER NOT NULL, -- ns that one task costs
    burst INTEGER NOT NULL, -- ns
    full  INTEGER NOT NULL  -- when the bucket is full again, µs
) STRICT, WITHOUT ROWID;

CREATE TABLE dibs_counts (
    minute INTEGER NOT NULL,
    queue  TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (minute, queue, kind, name)
) STRICT, WITHOUT ROWID;

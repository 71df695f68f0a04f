-- The database of the directory, version 1, as dibs v0.1.0 makes it: jobs and ticks with their runs, history, and
-- queues of tasks. This file stays as it is. A later version is a file of its own that only adds to it (CONTRIBUTING.md,
-- "Changing a store's layout").
--
-- All instants are microseconds since the Unix epoch, UTC; 0 is none. TEXT compares bytewise. Tables whose names
-- begin with dibs_ are dibs's; an application may have its own beside them.

-- One row for each version that was applied. oldest is the oldest version whose programs may still use the database
-- after this one. A program that knows less refuses it.
CREATE TABLE dibs_schema (
    version INTEGER PRIMARY KEY,
    oldest  INTEGER NOT NULL
) STRICT;

-- The registry: one definition of each job (T11). Ticks at or below mark are settled (T4).
CREATE TABLE dibs_jobs (
    name       TEXT    PRIMARY KEY,
    definition TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    mark       INTEGER NOT NULL,
    removed    INTEGER NOT NULL,
    paused_since INTEGER NOT NULL,
    paused_until INTEGER NOT NULL,
    paused_by    TEXT    NOT NULL,
    paused_why   TEXT    NOT NULL,
    paused_resumed INTEGER NOT NULL DEFAULT 0, -- somebody ended it, at paused_until; else that was set beforehand
    past       TEXT    NOT NULL DEFAULT ''     -- the definitions before this one that left ticks open, as JSON
) STRICT, WITHOUT ROWID;

-- One row for each claimed or settled tick, or for a range of ticks with one outcome (T4). The primary key makes the
-- first claim win (promise 8). Leases are no table: files with flock decide them.
CREATE TABLE dibs_ticks (
    job         TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    last        INTEGER NOT NULL, -- at, or the last tick of a range
    count       INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('claimed', 'started', 'closed')),
    lease_key   TEXT    NOT NULL,
    lease_owner TEXT    NOT NULL,
    lease_token INTEGER NOT NULL,
    claimant    TEXT    NOT NULL, -- JSON
    run_id      TEXT    NOT NULL,
    outcome     TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    inferred    INTEGER NOT NULL,
    reruns      INTEGER NOT NULL,
    claimed     INTEGER NOT NULL,
    started     INTEGER NOT NULL,
    ended       INTEGER NOT NULL,
    PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_ticks_at ON dibs_ticks (at, job);
-- Unfinished ticks by job, and ticks that may still have to be run by application (tick.Tick's Owed). A job's
-- application is its name up to the first slash. The queries that want these indexes repeat the conditions word for
-- word.
CREATE INDEX dibs_ticks_unfinished ON dibs_ticks (job, at) WHERE state <> 'closed';
CREATE INDEX dibs_ticks_owed ON dibs_ticks (substr(job, 1, instr(job, '/')), at, job)
    WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window');
-- Ranges are found by where they end: of all jobs, and of one.
CREATE INDEX dibs_ticks_ranges ON dibs_ticks (last) WHERE last > at;
CREATE INDEX dibs_ticks_ranges_of ON dibs_ticks (job, last) WHERE last > at;

-- One row for each run. owner and token fence its later writes (T9).
CREATE TABLE dibs_runs (
    id        TEXT    PRIMARY KEY,
    job       TEXT    NOT NULL,
    tick      INTEGER NOT NULL,
    lease_key TEXT    NOT NULL, -- '' where only the journal told of the run
    owner     TEXT    NOT NULL,
    token     INTEGER NOT NULL,
    host      TEXT    NOT NULL,
    pid       INTEGER NOT NULL,
    command   TEXT    NOT NULL,
    outcome   TEXT    NOT NULL, -- '' while it runs
    reason    TEXT    NOT NULL,
    inferred  INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER NOT NULL,
    attempts  TEXT    NOT NULL, -- JSON
    cause     TEXT    NOT NULL DEFAULT 'null' -- who asked for a run that no schedule did, and why, as JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_runs_started ON dibs_runs (started, id);
-- The outputs of a job's runs are deleted beyond the newest ones. This index finds the runs without a look at other
-- jobs'.
CREATE INDEX dibs_runs_job ON dibs_runs (job, started, id);
CREATE INDEX dibs_runs_unfinished ON dibs_runs (id) WHERE outcome = '' AND tick = 0;

-- What runs printed.
CREATE TABLE dibs_outputs (
    run_id TEXT PRIMARY KEY,
    output BLOB NOT NULL
) STRICT;

-- What happened, for history.
CREATE TABLE dibs_events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    job    TEXT    NOT NULL,
    tick   INTEGER NOT NULL,
    run_id TEXT    NOT NULL,
    host   TEXT    NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

CREATE INDEX dibs_events_at ON dibs_events (at, id);
-- The history of one job or run is found without a look at others.
CREATE INDEX dibs_events_job ON dibs_events (job, at, id) WHERE job <> '';
CREATE INDEX dibs_events_run ON dibs_events (run_id, at, id) WHERE run_id <> '';

-- The processes that serve and work: what each said of itself (fleet.Process, as JSON), and when it did so last.
CREATE TABLE dibs_processes (
    id     TEXT    PRIMARY KEY,
    seen   INTEGER NOT NULL,
    record BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_processes_seen ON dibs_processes (seen);

-- Where pruning goes on: rows that it passed over, since they must stay, are looked at once a round.
CREATE TABLE dibs_turns (
    what TEXT    PRIMARY KEY,
    at   INTEGER NOT NULL,
    name TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Tasks. States: 0 scheduled, 1 available, 2 blocked, 3 running, 4 retryable; 5 succeeded, 6 failed, 7 discarded, 8
-- canceled, 9 crashed.

-- A sub-queue is one kind in one queue.
CREATE TABLE dibs_subqueues (
    id    INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    UNIQUE (queue, kind)
) STRICT;
CREATE INDEX dibs_subqueues_of ON dibs_subqueues (queue, id);

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
CREATE INDEX dibs_workers_ended ON dibs_workers (ended) WHERE ended > 0;

-- The limits (Q5). How many tasks run under one is counted from dibs_tasks_slots, and stored nowhere. An operator's
-- word on a limit stands above what its tasks declare, until it is taken back: max is the operator's then.
CREATE TABLE dibs_limits (
    id    INTEGER PRIMARY KEY,
    hash  BLOB    NOT NULL UNIQUE,
    key   TEXT    NOT NULL,
    max   INTEGER NOT NULL,
    token INTEGER NOT NULL DEFAULT 0, -- the largest that was given under it
    declared  INTEGER NOT NULL DEFAULT 0, -- what tasks declared last, while an operator's word stands; else 0
    said_by   TEXT    NOT NULL DEFAULT '',
    said      INTEGER NOT NULL DEFAULT 0, -- when
    -- A limit with more sub-queues to bring in order than one step may: the one at which to go on, and the one at
    -- which the round ends. -1: it is in order.
    round_at  INTEGER NOT NULL DEFAULT -1,
    round_end INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX dibs_limits_said ON dibs_limits (key) WHERE declared > 0;
CREATE INDEX dibs_limits_round ON dibs_limits (id) WHERE round_at >= 0;

-- One row for each task, living or ended.
CREATE TABLE dibs_tasks (
    id        INTEGER PRIMARY KEY AUTOINCREMENT, -- an id is never given twice
    subqueue  INTEGER NOT NULL,
    state     INTEGER NOT NULL,
    class     INTEGER NOT NULL, -- 0 nothing is known against it, 1 suspect, 2 suspect that took a worker down before
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
    line      INTEGER NOT NULL, -- it stands in line for its limit; else a fetch decides about it
    args      BLOB NOT NULL,
    options   BLOB NOT NULL, -- of its spec: what the store keeps and never reads, as JSON
    reason    TEXT NOT NULL,
    stop      TEXT NOT NULL
) STRICT;

-- Each index serves one step, and has only the rows that this step may look at, however much there is beside them
-- (promise 26).
CREATE UNIQUE INDEX dibs_tasks_unique ON dibs_tasks (ukey) WHERE ukey IS NOT NULL;
CREATE INDEX dibs_tasks_ready ON dibs_tasks (subqueue, class, rank, id) WHERE state = 1;
CREATE INDEX dibs_tasks_due ON dibs_tasks (subqueue, run_at, id) WHERE state IN (0, 4);
CREATE INDEX dibs_tasks_line ON dibs_tasks (limited, line, state, subqueue, rank, id) WHERE limited IS NOT NULL AND state IN (1, 2);
-- Tasks in line for a limit, suspects apart from the others.
CREATE INDEX dibs_tasks_parts ON dibs_tasks (limited, state, subqueue, (class > 0), rank, id) WHERE limited IS NOT NULL AND line = 1 AND state IN (1, 2);
-- Tasks that a displacing one may supersede.
CREATE INDEX dibs_tasks_displacing ON dibs_tasks (limited, id) WHERE limited IS NOT NULL AND state IN (1, 2) AND (displaced = 1 OR line = 0);
CREATE INDEX dibs_tasks_slots ON dibs_tasks (limited) WHERE limited IS NOT NULL AND state = 3;
CREATE INDEX dibs_tasks_running ON dibs_tasks (worker) WHERE state = 3;
CREATE INDEX dibs_tasks_expire ON dibs_tasks (expires) WHERE expires > 0 AND state IN (0, 1, 2, 4);
CREATE INDEX dibs_tasks_window ON dibs_tasks (window) WHERE window > 0;
-- Retention passes over tasks whose window is open.
CREATE INDEX dibs_tasks_ended ON dibs_tasks (state, ended) WHERE state >= 5 AND window = 0;
CREATE INDEX dibs_tasks_subqueue ON dibs_tasks (subqueue, state, run_at);

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

-- Rates as buckets: each task takes each out, and the bucket is full again at full. At most so many are taken in any
-- time of length per.
CREATE TABLE dibs_rates (
    kind  TEXT    PRIMARY KEY,
    each  INTEGER NOT NULL, -- ns that one task costs
    burst INTEGER NOT NULL, -- ns
    full  INTEGER NOT NULL, -- when the bucket is full again, µs
    per   INTEGER NOT NULL, -- ns
    most  INTEGER NOT NULL,
    taken TEXT    NOT NULL  -- how many were taken when: lifecycle.Taken
) STRICT, WITHOUT ROWID;

CREATE TABLE dibs_counts (
    minute INTEGER NOT NULL,
    queue  TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (minute, queue, kind, name)
) STRICT, WITHOUT ROWID;

INSERT INTO dibs_schema (version, oldest) VALUES (1, 1);

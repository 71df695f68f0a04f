-- All instants are microseconds since the Unix epoch, UTC; 0 is none. TEXT compares bytewise. Tables whose names
-- begin with dibs_ are dibs's; an application may have its own beside them.

CREATE TABLE dibs_schema (
    version INTEGER NOT NULL -- how many migrations were applied
) STRICT;
INSERT INTO dibs_schema VALUES (0);

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
    paused_why   TEXT    NOT NULL
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

CREATE INDEX dibs_ticks_unfinished ON dibs_ticks (at, job) WHERE state <> 'closed';
CREATE INDEX dibs_ticks_at ON dibs_ticks (at, job);

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
    attempts  TEXT    NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_runs_started ON dibs_runs (started, id);
CREATE INDEX dibs_runs_unfinished ON dibs_runs (id) WHERE outcome = '' AND tick = 0;

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

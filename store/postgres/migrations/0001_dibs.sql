-- Schema dibs, version 1, as dibs v0.1.0 makes it: leases, jobs and ticks with their runs, history, and queues.
-- This file stays as it is. A later version is a file of its own that only adds to it (CONTRIBUTING.md, "Changing a
-- store's layout").
--
-- Contents:
--   1. Versions, clock, identity
--   2. Leases, jobs, ticks, runs, history
--   3. Tasks: the tables
--   4. Tasks: the functions, in the order of a task's life
--
-- Instants are microseconds since the Unix epoch by this server's clock; 0 is "none". Keys and jobs are bytes, so
-- that no collation takes part in comparing them (L13). Empty text is "none".

-- 1. Versions, clock, identity --------------------------------------------------------------------------------------

DO $$
BEGIN
  -- CREATE SCHEMA IF NOT EXISTS would demand the right to create one even where there is one.
  IF to_regnamespace('dibs') IS NULL THEN
    CREATE SCHEMA dibs;
  END IF;
END $$;

-- One row for each version that was applied. oldest is the oldest version whose programs may still use the schema
-- after this one: they go on beside newer ones while servers are upgraded one by one. A program that knows less
-- refuses it.
CREATE TABLE dibs.migrations (
  version int PRIMARY KEY,
  oldest  int NOT NULL,
  applied timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The store's clock, in µs. It is never now(): that is the start of the transaction, and a lease judged by it after a
-- wait for a row lock would be granted or revived too late (L1).
CREATE FUNCTION dibs.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT round(date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;

-- Which server this is, and on which line of its history (L9). The system identifier differs after a restore from a
-- dump, the timeline after a promotion or a point-in-time recovery. The name of the current WAL file shows a new
-- timeline at once; pg_control_checkpoint() only after the next checkpoint. What the server does not tell to this
-- role is a question mark. A standby raises an error: it grants nothing. The identifier comes from a file and cannot
-- change under a session, so the session remembers it in the setting dibs.system.
CREATE FUNCTION dibs.identity() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  system text := current_setting('dibs.system', true);
BEGIN
  IF coalesce(system, '') = '' THEN
    BEGIN
      system := '?';
      SELECT system_identifier::text INTO system FROM pg_control_system();
      PERFORM pg_walfile_name(pg_current_wal_lsn());
    EXCEPTION
      WHEN insufficient_privilege OR undefined_function OR feature_not_supported
        OR object_not_in_prerequisite_state THEN
        IF pg_is_in_recovery() THEN
          RAISE; -- a standby grants nothing, whoever it is
        END IF;
        system := system || '/?';
    END;
    PERFORM set_config('dibs.system', system, false);
  END IF;
  IF system LIKE '%?' THEN
    RETURN system;
  END IF;
  RETURN system || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
END $$;

-- The name under which listeners hear of a key. It is a hash, since everybody who may connect may listen.
CREATE FUNCTION dibs.topic(ns text, key bytea) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT encode(sha256(convert_to(ns, 'UTF8') || '\x2f'::bytea || key), 'hex') $$;

-- 2. Leases, jobs, ticks, runs, history -----------------------------------------------------------------------------
--
-- The namespace comes last in the primary keys: most databases have one namespace, so it would find nothing as the
-- first column. What is read in pages is found among the rows of its own namespace, so there the namespace comes
-- before what is walked in order, and the rows of other namespaces are not in the way.
--
-- A session keeps a plan that it made while a table was small, and that plan may use any index that fits one column:
-- 5,000 ticks of one instant were then read for each tick that was looked up by job and instant. So an index that
-- serves pages has an expression where another query might have an equality, and the queries that want this index
-- repeat the expression word for word: ns || '', at + 0, job || '', state || ''. No other query can use it. As a
-- plain column ns begins only partial indexes: an index that begins with plain ns would fit nearly every query, and
-- all of a namespace was read for one key of it.

-- One row for each namespace: what grants are judged by (L9).
CREATE TABLE dibs.namespaces (
  ns           text COLLATE "C" PRIMARY KEY,
  installation text NOT NULL,
  identity     text NOT NULL,
  epoch        bigint NOT NULL, -- grows with each change of identity: a client that has seen a higher one knows that
                                -- this is an older state of the data
  hold_until   bigint NOT NULL, -- nothing is granted before it
  max_ttl      bigint NOT NULL  -- µs
);

-- A row is never deleted on release, so that its token survives (L10). Half of each page is left free and no index
-- holds an instant: a renewal then stays on its page and touches no index (HOT). Vacuum runs early, since each
-- heartbeat leaves a dead version.
CREATE TABLE dibs.leases (
  ns            text COLLATE "C" NOT NULL,
  key           bytea NOT NULL,
  owner         text NOT NULL DEFAULT '',
  token         bigint NOT NULL DEFAULT 0, -- 0: never granted
  holder        text NOT NULL DEFAULT '',
  ttl           bigint NOT NULL DEFAULT 0,
  acquired      bigint NOT NULL DEFAULT 0,
  renewed       bigint NOT NULL DEFAULT 0,
  expires       bigint NOT NULL DEFAULT 0,
  busy_until    bigint NOT NULL DEFAULT 0,
  wanted        text NOT NULL DEFAULT '',
  broken        text NOT NULL DEFAULT '',
  watched_until bigint NOT NULL DEFAULT 0, -- somebody listens for its release until then
  PRIMARY KEY (key, ns)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX leases_listed ON dibs.leases ((ns || ''), key);

-- The registry: one definition of each job (T11). Ticks at or below mark are settled (T4).
CREATE TABLE dibs.jobs (
  ns         text COLLATE "C" NOT NULL,
  name       bytea NOT NULL,
  definition text NOT NULL,
  generation bigint NOT NULL,
  since      bigint NOT NULL,
  mark       bigint NOT NULL,
  removed    bigint NOT NULL DEFAULT 0,
  paused_since bigint NOT NULL DEFAULT 0, -- the last pause; 0: there never was one
  paused_until bigint NOT NULL DEFAULT 0, -- 0: until somebody resumes the job
  paused_by    text NOT NULL DEFAULT '',
  paused_why   text NOT NULL DEFAULT '',
  paused_resumed boolean NOT NULL DEFAULT false, -- somebody ended the pause, at paused_until; else that was set beforehand
  past       text NOT NULL DEFAULT '', -- the definitions before this one that left ticks open, as JSON
  PRIMARY KEY (name, ns)
) WITH (fillfactor = 70);
CREATE INDEX jobs_listed ON dibs.jobs ((ns || ''), name);

-- One row for each claimed or settled tick, or for a range of ticks with one outcome: at to through, count of them
-- (T4). The primary key makes the first claim win (promise 8).
CREATE TABLE dibs.ticks (
  ns          text COLLATE "C" NOT NULL,
  job         bytea NOT NULL,
  at          bigint NOT NULL,
  through     bigint NOT NULL DEFAULT 0,
  count       int NOT NULL DEFAULT 0,
  state       text NOT NULL,
  lease_key   bytea NOT NULL DEFAULT '',
  lease_owner text NOT NULL DEFAULT '',
  lease_token bigint NOT NULL DEFAULT 0,
  claimant    text NOT NULL DEFAULT '',
  run_id      text NOT NULL DEFAULT '',
  outcome     text NOT NULL DEFAULT '',
  reason      text NOT NULL DEFAULT '',
  inferred    boolean NOT NULL DEFAULT false,
  reruns      int NOT NULL DEFAULT 0,
  claimed     bigint NOT NULL DEFAULT 0,
  started     bigint NOT NULL DEFAULT 0,
  ended       bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (job, ns, at)
) WITH (fillfactor = 80);
CREATE INDEX ticks_recent ON dibs.ticks ((ns || ''), (at + 0), job);
CREATE INDEX ticks_unfinished ON dibs.ticks (ns, (job || ''::bytea), at) WHERE state || '' <> 'closed';
-- Ticks that may still have to be run, by application and instant (tick.Tick's Owed). A job's application is its name
-- up to the first slash. The query that wants this index repeats the condition word for word.
CREATE INDEX ticks_owed ON dibs.ticks (ns, substring(job from 1 for position('\x2f'::bytea in job)), at, job)
  WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window');
-- Ranges by the instants that they cover: a query from an instant on also wants the ranges that reach into it.
CREATE INDEX ticks_ranges ON dibs.ticks USING gist (int8range(at, greatest(at, through), '[]')) WHERE through <> 0;

-- A tick, and whether the lease that it lives under is live.
CREATE VIEW dibs.tick_rows AS
SELECT t.*, EXISTS (
  SELECT FROM dibs.leases l
  WHERE l.ns = t.ns AND l.key = t.lease_key AND l.owner = t.lease_owner AND l.token = t.lease_token
    AND l.expires > dibs.now_us()) AS live
FROM dibs.ticks t;

-- One row for each run. owner and token fence its later writes (T9).
CREATE TABLE dibs.runs (
  ns       text COLLATE "C" NOT NULL,
  run_id   text COLLATE "C" NOT NULL,
  job      bytea NOT NULL,
  tick     bigint NOT NULL DEFAULT 0,
  owner    text NOT NULL,
  token    bigint NOT NULL,
  host     text NOT NULL DEFAULT '',
  pid      bigint NOT NULL DEFAULT 0,
  command  text NOT NULL DEFAULT '',
  outcome  text NOT NULL DEFAULT '',
  reason   text NOT NULL DEFAULT '',
  inferred boolean NOT NULL DEFAULT false,
  started  bigint NOT NULL,
  ended    bigint NOT NULL DEFAULT 0,
  attempts text NOT NULL DEFAULT '',
  cause    text NOT NULL DEFAULT '', -- who asked for a run that no schedule did, and why, as JSON; empty for none
  PRIMARY KEY (run_id, ns)
) WITH (fillfactor = 80);
CREATE INDEX runs_recent ON dibs.runs ((ns || ''), started, run_id);
CREATE INDEX runs_of_job ON dibs.runs (job, ns, started, run_id);

-- What runs printed.
CREATE TABLE dibs.outputs (
  ns     text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  output bytea NOT NULL,
  PRIMARY KEY (run_id, ns)
);

-- What happened, for the history.
CREATE TABLE dibs.events (
  ns     text COLLATE "C" NOT NULL,
  id     text COLLATE "C" NOT NULL,
  at     bigint NOT NULL,
  kind   text NOT NULL,
  key    bytea NOT NULL DEFAULT '',
  job    bytea NOT NULL DEFAULT '',
  tick   bigint NOT NULL DEFAULT 0,
  run_id text NOT NULL DEFAULT '',
  host   text NOT NULL DEFAULT '',
  reason text NOT NULL DEFAULT '',
  PRIMARY KEY (id, ns)
);
CREATE INDEX events_recent ON dibs.events ((ns || ''), at, id);
CREATE INDEX events_of_job ON dibs.events (job, ns, at, id) WHERE job <> '';
CREATE INDEX events_run ON dibs.events (run_id, ns) WHERE run_id <> '';

-- The processes that serve and work: what each said of itself (fleet.Process, as JSON), and when it did so last.
CREATE TABLE dibs.processes (
  ns     text COLLATE "C" NOT NULL,
  id     text COLLATE "C" NOT NULL,
  seen   bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (id, ns)
);
CREATE INDEX processes_recent ON dibs.processes ((ns || ''), seen, id);

-- Where the last step of pruning ended, among rows that are old and have to stay. Without a row the next step begins
-- at the beginning.
CREATE TABLE dibs.pruned (
  ns   text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  at   bigint NOT NULL DEFAULT 0,
  name bytea NOT NULL DEFAULT '',
  PRIMARY KEY (ns, kind)
);

-- 3. Tasks: the tables ----------------------------------------------------------------------------------------------
--
-- Queues and kinds are numbers here: the first eight bytes of a hash of (what, namespace, name). So nobody has to
-- look one up, or to wait for one that another transaction is about to make. queue_names tells the name of a number.
-- Unique keys and limits are sixteen bytes of a hash that contains the namespace as well. So the rows of tasks need
-- no namespace.
--
-- The states: 0 scheduled, 1 available, 2 available and suspect, 3 available with a limit ("nominated"), 4 blocked by
-- its limit, 5 running, 6 retryable; the final ones 10 succeeded, 11 failed, 12 discarded, 13 canceled, 14 crashed.
-- States 2 and 3 have numbers of their own so that the common fetch, of state 1, never meets them. A sub-queue is one
-- kind in one queue. In each sub-queue of a limit, as many tasks are nominated as the limit has free slots, and all
-- others are blocked (Q5).
--
-- Locks. Before any row, a fetch shares two advisory locks: of its worker, which the worker's end takes alone, and of
-- the namespace, which a pause takes alone. Their first numbers are "dibr" and "dibq" in ASCII.
-- Rows are locked in the order: rates, limits by key, tasks by id. To insert a unique key may mean to wait for
-- a transaction that has touched the task which holds it. So a step that has touched a task locks no limit any more,
-- unless with SKIP LOCKED. Tasks that are merely looked for are taken with SKIP LOCKED and never waited for. A
-- transaction of a caller's holds no lock on a limit: what it changes about a limit it leaves as a note in
-- queue_notes, and the next step that comes by acts on it.
--
-- Plans. The tables grow from nothing to a million rows under plans that sessions keep, so no plan may depend on what
-- the planner believes of them. Each function sets for itself that plans are generic and are ordered index scans,
-- since it may run in a session of a caller's. What a batch names is found row by row, by an index, and the planner
-- is left no way to read a whole index instead:
-- * id BETWEEN q.id AND q.id joins a batch: with q.id alone, or with an order, a table that is thought to be small is
--   walked for each item.
-- * What is sought for each item and may be missing stands in a subquery of its own, with OFFSET 0 or as a scalar.
-- * state::int = 5 fits no index, so rows are found by their ids.

CREATE SEQUENCE dibs.task_ids;

CREATE TABLE dibs.tasks (
  id         bigint NOT NULL,
  sort_key   bigint NOT NULL, -- (9 - priority, and 19 more unless it was moved to the front) << 53 | id
  queue      bigint NOT NULL,
  kind       bigint NOT NULL,
  enqueued   bigint NOT NULL,
  due        bigint NOT NULL, -- when it becomes, or became, due
  token      bigint NOT NULL DEFAULT 0,
  fetched    bigint,
  ended      bigint,
  expires    bigint,
  hold       bigint, -- how long the unique key is held after success, so that the window ends at ended + hold; -1: until the start
  uniq       uuid,
  lim        uuid,
  slots      int, -- what it declares of its limit
  worker     int,
  attempts   int NOT NULL DEFAULT 0,
  granted    int NOT NULL DEFAULT 0,
  crashes    int NOT NULL DEFAULT 0,
  snoozes    int NOT NULL DEFAULT 0,
  state      smallint NOT NULL,
  contention smallint, -- 1 discard, 2 replace, 3 replace that has asked for its slot; else it waits
  held       boolean NOT NULL DEFAULT false, -- it has its unique key
  suspect    boolean NOT NULL DEFAULT false,
  begun      boolean NOT NULL DEFAULT false, -- its start was written
  args       text NOT NULL,
  options    text, -- of its spec: what the store keeps and never reads, as JSON
  stop       text,
  reason     text,
  PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.5);
-- Plans find tasks by band through the first four. All tasks meet the condition sort_key >= 0: it keeps a search for
-- a limit's tasks away from these indexes.
CREATE INDEX tasks_ready ON dibs.tasks (queue, kind, sort_key) WHERE state = 1;
CREATE INDEX tasks_suspect ON dibs.tasks (queue, kind, sort_key) WHERE state = 2;
CREATE INDEX tasks_nominee ON dibs.tasks (queue, kind, sort_key) WHERE state = 3 AND sort_key >= 0;
CREATE INDEX tasks_behind ON dibs.tasks (queue, kind, sort_key) WHERE state = 4 AND sort_key >= 0;
CREATE INDEX tasks_nominee_subqueue ON dibs.tasks (lim, queue, kind, sort_key) WHERE state = 3 AND lim IS NOT NULL;
CREATE INDEX tasks_blocked ON dibs.tasks (lim, queue, kind, sort_key) WHERE state = 4;
CREATE INDEX tasks_running ON dibs.tasks (worker) WHERE state = 5;
CREATE INDEX tasks_stop ON dibs.tasks (worker) WHERE state = 5 AND stop IS NOT NULL;
CREATE INDEX tasks_slot ON dibs.tasks (lim) WHERE state = 5 AND lim IS NOT NULL;
CREATE INDEX tasks_due ON dibs.tasks (queue, due, id) WHERE state IN (0, 6);
CREATE INDEX tasks_expiry ON dibs.tasks (queue, expires) WHERE expires IS NOT NULL AND state IN (0, 1, 2, 3, 4, 6);
CREATE INDEX tasks_window ON dibs.tasks (queue, (ended + hold), id) WHERE state = 10;
CREATE INDEX tasks_displacing ON dibs.tasks (lim, id) WHERE contention IN (2, 3) AND state IN (3, 4);
CREATE UNIQUE INDEX tasks_unique ON dibs.tasks (uniq) WHERE held;

-- Tasks that ended, out of the way of those that live. A task with an open window stays in dibs.tasks until that is
-- over.
CREATE TABLE dibs.tasks_ended (LIKE dibs.tasks INCLUDING DEFAULTS, PRIMARY KEY (id));
-- What retention looks for, in the order of their end. Most tasks succeed, and are only ever added at the end of this
-- index. With the id as the last column, what has ended can be read page by page.
CREATE INDEX tasks_ended_succeeded ON dibs.tasks_ended (queue, ended, id) WHERE state = 10;
CREATE INDEX tasks_ended_otherwise ON dibs.tasks_ended (queue, state, ended, id) WHERE state <> 10;

CREATE VIEW dibs.all_tasks AS SELECT * FROM dibs.tasks UNION ALL SELECT * FROM dibs.tasks_ended;

-- Attempts that did not succeed. token is that of the attempt, so that an attempt is recorded once.
CREATE TABLE dibs.task_attempts (
  task    bigint NOT NULL,
  token   bigint NOT NULL,
  worker  int NOT NULL,
  n       int NOT NULL,
  outcome text NOT NULL,
  started bigint NOT NULL,
  ended   bigint NOT NULL,
  error   text NOT NULL,
  PRIMARY KEY (task, token)
);

-- The names of numbers. A name may be there twice, since nobody waits to learn whether another transaction is adding
-- it.
CREATE TABLE dibs.queue_names (
  id   bigint NOT NULL,
  ns   text COLLATE "C" NOT NULL,
  kind boolean NOT NULL, -- else a queue
  name text COLLATE "C" NOT NULL
);
CREATE INDEX queue_names_id ON dibs.queue_names (id);
-- Maintenance takes the queues of a namespace by turns, so many at a time, by their number.
CREATE INDEX queue_names_ns ON dibs.queue_names (ns, kind, id);

-- Bands. A band is the tasks of one queue, kind and rank (rank is the upper bits of sort_key). This table says which
-- bands there ever were. A fetch looks at the head of each band that it may give from, and at nothing else, so tasks
-- that it cannot give cost it nothing. A band may be there twice, as a name may.
--
-- Floors. While somebody holds an old snapshot, the index keeps the entries of all tasks that were given since, at
-- the head of their band. So a band remembers a floor: no available task without a limit stands below it, unless a
-- mark says so. How a floor is raised (queue_raise):
--
-- 1. A candidate is written and committed: the sort key of the first task that is there.
--
-- 2. A later fetch sees the candidate and writes down the next transaction id, x. Every transaction with id x or a
-- later one sees the candidate.
--
-- 3. When all transactions before x have ended, all that they did can be seen. The first task that is found then is
-- the new floor.
--
-- Why that is safe. A new task has a sort key above every floor and candidate that its transaction did not see: its
-- id is drawn after the transaction got its own id (queue_now). A transaction that puts an older task back below a
-- floor or candidate leaves a mark in the same transaction (queue_put_back). Nobody waits for anybody. A transaction
-- that writes for long only keeps floors where they are.
CREATE TABLE dibs.queue_bands (
  queue bigint NOT NULL,
  kind  bigint NOT NULL,
  rank  int NOT NULL,
  floor bigint NOT NULL,
  candidate bigint,
  x     bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_bands_at ON dibs.queue_bands (queue, kind, rank);

-- Tasks that were put back below a floor: see above.
CREATE TABLE dibs.queue_marks (
  queue bigint NOT NULL,
  kind  bigint NOT NULL,
  rank  int NOT NULL,
  sort_key bigint NOT NULL
);
CREATE INDEX queue_marks_at ON dibs.queue_marks (queue, kind, rank, sort_key);

-- The limits: one row for each concurrency key (Q5). Its row lock is what serializes fetches, ends and promotions on
-- a key. running is a count, so that no step has to count; queue_repair checks it.
--
-- An operator's word on a limit stands above what its tasks declare, until it is taken back. While it stands, slots is
-- the operator's, and declared is beyond every id, so that no fetch takes a declaration from a task that a caller's
-- transaction took in.
CREATE TABLE dibs.queue_limits (
  lim      uuid PRIMARY KEY,
  ns       text COLLATE "C" NOT NULL,
  key      text NOT NULL,
  slots    int NOT NULL,
  running  int NOT NULL DEFAULT 0,
  token    bigint NOT NULL DEFAULT 0, -- the largest that was given under it
  declared bigint NOT NULL DEFAULT 0, -- the last id when slots was declared
  checked  bigint NOT NULL DEFAULT 0, -- when it was last checked for repair
  said     int,                       -- what tasks declare while an operator's word stands; NULL while there is none
  since    bigint NOT NULL DEFAULT dibs.now_us(),
  heard    bigint,                    -- while a word stands: the id of the task that declared said
  said_of  uuid,                      -- the limit's hash as the contract has it
  said_by  text NOT NULL DEFAULT '',
  said_at  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_limits_ns ON dibs.queue_limits (ns, checked);
CREATE INDEX queue_limits_said ON dibs.queue_limits (ns, key) WHERE said IS NOT NULL;

-- Notes that somebody must look at a limit: a transaction of a caller's freed so many slots of it, or a task that
-- should have been promoted was locked, or a step had more to promote than it may. Rows are only added and deleted,
-- so a note waits for nobody.
CREATE TABLE dibs.queue_notes (
  ns    text COLLATE "C" NOT NULL,
  lim   uuid NOT NULL,
  freed int NOT NULL
);
CREATE INDEX queue_notes_ns ON dibs.queue_notes (ns, lim);

-- A worker's row stays after it has gone, for the tasks that it worked.
CREATE TABLE dibs.queue_workers (
  id     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  ns     text COLLATE "C" NOT NULL,
  key    bytea NOT NULL,
  owner  text NOT NULL,
  token  bigint NOT NULL,
  host   text NOT NULL DEFAULT '',
  pid    bigint NOT NULL DEFAULT 0,
  queues text[] NOT NULL DEFAULT '{}',
  kinds  text[] NOT NULL DEFAULT '{}',
  slots  int NOT NULL DEFAULT 0,
  since  bigint NOT NULL DEFAULT 0,
  gone   bigint NOT NULL DEFAULT 0,
  unrescued boolean NOT NULL DEFAULT false, -- it has left, or its lease has gone, and it may still have tasks
  UNIQUE (key, owner, token, ns)
);
CREATE INDEX queue_workers_here ON dibs.queue_workers (ns) WHERE gone = 0;
CREATE INDEX queue_workers_gone ON dibs.queue_workers (ns, gone) WHERE gone <> 0;
CREATE INDEX queue_workers_unrescued ON dibs.queue_workers (ns) WHERE unrescued;

CREATE TABLE dibs.queue_pauses (
  ns    text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL, -- empty: all
  kind  text COLLATE "C" NOT NULL,
  q     bigint, -- their numbers
  k     bigint,
  since bigint NOT NULL,
  until bigint NOT NULL, -- 0: until somebody resumes it
  by    text NOT NULL,
  why   text NOT NULL,
  PRIMARY KEY (ns, queue, kind)
);

-- Rates as buckets: busy is the instant at which all that was given is worked off. Each task adds every to it. As
-- many tasks may be given as fit in between busy and burst from now on; and at most so many in any time of length per.
-- Those of the last per are counted in sixteenths of it: taken tasks, of which the last was given at taken_at. A part
-- counts until that one is old enough, so too few are given rather than too many.
CREATE TABLE dibs.queue_rates (
  ns    text COLLATE "C" NOT NULL,
  k     bigint NOT NULL,
  every bigint NOT NULL, -- the time that one task costs
  burst bigint NOT NULL, -- how far ahead of now busy may be
  busy  bigint NOT NULL DEFAULT 0,
  per   bigint NOT NULL DEFAULT 0,
  most  int NOT NULL DEFAULT 0,
  taken_at bigint[] NOT NULL DEFAULT '{}',
  taken    int[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (ns, k)
);

-- Counters grow by added rows: two transactions that count the same thing must not wait for each other. Maintain sums
-- them up.
CREATE TABLE dibs.queue_counts (
  ns     text COLLATE "C" NOT NULL,
  minute bigint NOT NULL,
  queue  text COLLATE "C" NOT NULL,
  kind   text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  n      bigint NOT NULL
);
CREATE INDEX queue_counts_at ON dibs.queue_counts (ns, minute);

-- Queues of which an idle worker wants to hear. A notification empties the row, so that nobody notifies it again
-- before it has asked again.
CREATE TABLE dibs.queue_watched (
  queue   bigint PRIMARY KEY,
  watched bigint NOT NULL DEFAULT 0 -- until then
) WITH (fillfactor = 50);

-- 4. Tasks: the functions, in the order of a task's life ------------------------------------------------------------

-- Ground: bounds, clock, events, counters, notifications.

-- The most rows that one step changes, whatever there is (promise 26). The rest is the next step's.
CREATE FUNCTION dibs.queue_bound() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 1000 $$;

-- The clock, read after the transaction has its id: see Floors above. Whatever draws task ids calls it first.
CREATE FUNCTION dibs.queue_now() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN dibs.now_us() END $$;

-- The number of the worker that has this lease, if the lease is live; else null. Every step of a worker begins with
-- it (T1).
CREATE FUNCTION dibs.queue_worker(p_ns text, p_key bytea, p_owner text, p_token bigint) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN (SELECT w.id FROM dibs.leases l
    JOIN dibs.queue_workers w ON w.key = l.key AND w.owner = l.owner AND w.token = l.token AND w.ns = l.ns AND w.gone = 0
    WHERE l.key = p_key AND l.ns = p_ns AND l.owner = p_owner AND l.token = p_token AND l.expires > dibs.now_us());
END $$;

-- Records an event of the history in the same transaction as what it tells of.
CREATE FUNCTION dibs.queue_event(p_ns text, p_kind text, p_reason text) RETURNS void LANGUAGE sql VOLATILE AS
$$ INSERT INTO dibs.events (ns, id, at, kind, reason) VALUES (p_ns, to_hex(dibs.now_us()) || '-' || gen_random_uuid(), dibs.now_us(), p_kind, p_reason) $$;

-- Counts what the store itself does to a task: discards, cancellations, crashes, rescues.
CREATE FUNCTION dibs.queue_tally(p_queue bigint, p_kind bigint, p_name text, p_n bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO dibs.queue_counts (ns, minute, queue, kind, name, n)
  SELECT q.ns, dibs.now_us() / 60000000 * 60000000, q.name, k.name, p_name, p_n
  FROM (SELECT ns, name FROM dibs.queue_names WHERE id = p_queue LIMIT 1) q, (SELECT name FROM dibs.queue_names WHERE id = p_kind LIMIT 1) k;
END $$;

-- Notifies the workers that watch a queue, once. Returns whether it did. NOTIFY makes commits wait for each other, so
-- a queue that nobody watches gets no notification. The row is disarmed under SKIP LOCKED: if another transaction is
-- notifying just now, that is enough. A transaction of a caller's (p_own) notifies without touching the row, which it
-- would lock until its end.
CREATE FUNCTION dibs.queue_notify(p_queue bigint, p_own bool) RETURNS bool LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  IF EXISTS (SELECT FROM dibs.queue_watched WHERE queue = p_queue AND watched > dibs.now_us()) THEN
    IF NOT p_own THEN
      UPDATE dibs.queue_watched SET watched = 0 WHERE queue = ANY (ARRAY(
        SELECT queue FROM dibs.queue_watched WHERE queue = p_queue AND watched > 0 FOR NO KEY UPDATE SKIP LOCKED));
      IF NOT FOUND THEN
        RETURN false;
      END IF;
    END IF;
    PERFORM pg_notify('dibs', 'queue ' || p_queue);
    RETURN true;
  END IF;
  RETURN false;
END $$;

-- Says whether slots of limits are held back, as grants of leases are (Q5, L9): a server that was promoted may not
-- know all slots that were given. The first fetch on a server that the namespace does not know begins the hold-back.
CREATE FUNCTION dibs.queue_held(p_ns text) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  here  text := dibs.identity();
  t_now bigint := dibs.now_us();
BEGIN
  IF EXISTS (SELECT FROM dibs.namespaces n WHERE n.ns = p_ns AND n.identity = here AND n.hold_until <= t_now) THEN
    RETURN false;
  END IF;
  -- As an acquire does; a hold-back beyond max_ttl was written by a clock that ran ahead.
  UPDATE dibs.namespaces n
  SET identity = here, hold_until = dibs.now_us() + n.max_ttl,
      epoch = CASE WHEN n.identity <> here THEN least(greatest(n.epoch + 1, dibs.now_us()), 9007199254740991) ELSE n.epoch END
  WHERE n.ns = p_ns AND (n.identity <> here OR n.hold_until > dibs.now_us() + n.max_ttl);
  RETURN true;
END $$;

-- The end of tasks, and the keys of those in a window.

-- Ends tasks in a final state other than success. The caller has them locked. The row moves to tasks_ended, so its
-- unique key is free with it (promise 17).
CREATE FUNCTION dibs.queue_end(p_ids bigint[], p_state smallint, p_reason text, p_now bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  WITH gone AS (
    DELETE FROM dibs.tasks WHERE id = ANY (p_ids)
    RETURNING *
  )
  INSERT INTO dibs.tasks_ended
  SELECT id, sort_key, queue, kind, enqueued, due, token, fetched, p_now, expires, hold, uniq, lim, slots, worker,
         attempts, granted, crashes, snoozes, p_state, contention, false, suspect, begun, args, options, NULL, p_reason
  FROM gone;
END $$;

-- Discards tasks with a reason, and counts them by it (promise 21). The caller has them locked.
CREATE FUNCTION dibs.queue_discard(p_ids bigint[], p_reason text, p_now bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  PERFORM dibs.queue_tally(t.queue, t.kind, 'discarded:' || p_reason, t.n)
  FROM (SELECT queue, kind, count(*) AS n FROM dibs.tasks WHERE id = ANY (p_ids) GROUP BY queue, kind) t;
  PERFORM dibs.queue_end(p_ids, 12::smallint, p_reason, p_now);
END $$;

-- Ends the windows of tasks that succeeded: they move to tasks_ended, and their keys are free (Q1). Each is judged by
-- the clock under its lock. Returns how many.
CREATE FUNCTION dibs.queue_free(p_ids bigint[]) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  n int;
BEGIN
  WITH gone AS (
    DELETE FROM dibs.tasks WHERE id = ANY (ARRAY(
      SELECT id FROM dibs.tasks WHERE id = ANY (p_ids) AND state::int = 10 AND ended + hold <= dibs.now_us() ORDER BY id FOR UPDATE))
    RETURNING *
  )
  INSERT INTO dibs.tasks_ended
  SELECT id, sort_key, queue, kind, enqueued, due, token, fetched, ended, expires, hold, uniq, lim, slots, worker,
         attempts, granted, crashes, snoozes, state, contention, false, suspect, begun, args, options, stop, reason
  FROM gone;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Bands.

-- To be called for tasks that this transaction put back or moved. It makes sure that their bands are known, and marks
-- the available ones that stand below a floor or candidate. pg_current_xact_id() comes first: with an id, the
-- transaction holds back a raise that does not see its marks.
CREATE FUNCTION dibs.queue_put_back(p_ids bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  PERFORM pg_current_xact_id();
  INSERT INTO dibs.queue_bands (queue, kind, rank, floor)
  SELECT b.queue, b.kind, b.rank, b.rank::bigint << 53
  FROM (SELECT DISTINCT t.queue, t.kind, (t.sort_key >> 53)::int AS rank FROM dibs.tasks t WHERE t.id = ANY (p_ids)) b
  WHERE NOT EXISTS (SELECT FROM dibs.queue_bands l WHERE l.queue = b.queue AND l.kind = b.kind AND l.rank = b.rank);
  INSERT INTO dibs.queue_marks
  SELECT b.queue, b.kind, b.rank, b.sort_key
  FROM (SELECT t.queue, t.kind, (t.sort_key >> 53)::int AS rank, min(t.sort_key) AS sort_key FROM dibs.tasks t
    WHERE t.id = ANY (p_ids) AND t.state::int = 1 GROUP BY 1, 2, 3) b
  WHERE EXISTS (SELECT FROM dibs.queue_bands l WHERE l.queue = b.queue AND l.kind = b.kind AND l.rank = b.rank
    AND b.sort_key < greatest(l.floor, l.candidate));
END $$;

-- Takes the next of the three steps to a higher floor of one band, if the floor rises by p_gap at least. A band that
-- somebody else is raising is left alone (SKIP LOCKED).
CREATE FUNCTION dibs.queue_raise(p_queue bigint, p_kind bigint, p_rank int, p_gap bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  at   tid;
  f    bigint;
  c    bigint;
  till bigint;
  low  bigint;
  head bigint;
BEGIN
  SELECT l.ctid, l.floor, l.candidate, l.x INTO at, f, c, till FROM dibs.queue_bands l
  WHERE l.queue = p_queue AND l.kind = p_kind AND l.rank = p_rank ORDER BY l.floor LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF c IS NOT NULL AND till IS NULL THEN
    UPDATE dibs.queue_bands l SET x = pg_snapshot_xmax(pg_current_snapshot())::text::bigint WHERE l.ctid = at;
    RETURN;
  END IF;
  IF c IS NOT NULL AND pg_snapshot_xmin(pg_current_snapshot())::text::bigint < till THEN
    RETURN; -- somebody who does not know of it may still commit
  END IF;
  SELECT least(f, min(m.sort_key)) INTO low FROM dibs.queue_marks m WHERE m.queue = p_queue AND m.kind = p_kind AND m.rank = p_rank;
  IF c IS NULL THEN
    -- The sequence is read first: ids that are drawn after that stand above it.
    SELECT last_value + 1 INTO c FROM dibs.task_ids;
    c := p_rank::bigint << 53 | c;
    SELECT t.sort_key INTO head FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = p_kind AND t.state = 1
      AND t.sort_key >= low AND t.sort_key < (p_rank + 1)::bigint << 53 ORDER BY t.sort_key LIMIT 1;
    c := least(c, head);
    IF c - f >= p_gap THEN
      UPDATE dibs.queue_bands l SET candidate = c WHERE l.ctid = at;
    END IF;
    RETURN;
  END IF;
  -- A transaction that left a mark also put the task back. If its mark can be seen, so can its task: one look tells
  -- of both. Marks below low came after low was read, and stay.
  WITH gone AS (
    DELETE FROM dibs.queue_marks m WHERE m.queue = p_queue AND m.kind = p_kind AND m.rank = p_rank AND m.sort_key >= low
  )
  UPDATE dibs.queue_bands l SET candidate = NULL, x = NULL, floor = coalesce((
    SELECT t.sort_key FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = p_kind AND t.state = 1
      AND t.sort_key >= low AND t.sort_key < c ORDER BY t.sort_key LIMIT 1), c)
  WHERE l.ctid = at;
END $$;

-- The bands of a queue that a worker may be given from: of kinds that it knows (null: any), and of none that is
-- paused (p_banned) or whose rate is used up. low is where the first task can be: the floor, or a lower mark. most is
-- how many tasks of the band it may get. rising says that a raise is under way. The two branches differ in their
-- kinds alone: one statement for both would have one plan.
CREATE FUNCTION dibs.queue_open(p_queue bigint, p_kinds bigint[], p_banned bigint[], p_rated bigint[], p_allowed int[], p_most int)
RETURNS TABLE (kind bigint, rank int, low bigint, rising bool, most int) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  IF p_kinds IS NULL THEN
    RETURN QUERY
    SELECT l.kind, l.rank, least(min(l.floor), min(m.sort_key)), bool_or(l.candidate IS NOT NULL),
      coalesce(p_allowed[array_position(p_rated, l.kind)], p_most)
    FROM dibs.queue_bands l LEFT JOIN LATERAL (SELECT x.sort_key FROM dibs.queue_marks x
      WHERE x.queue = p_queue AND x.kind = l.kind AND x.rank = l.rank ORDER BY x.sort_key LIMIT 1) m ON true
    WHERE l.queue = p_queue AND (p_banned IS NULL OR l.kind <> ALL (p_banned)) AND coalesce(p_allowed[array_position(p_rated, l.kind)], 1) > 0
    GROUP BY l.kind, l.rank;
  ELSE
    RETURN QUERY
    SELECT l.kind, l.rank, least(min(l.floor), min(m.sort_key)), bool_or(l.candidate IS NOT NULL),
      coalesce(p_allowed[array_position(p_rated, l.kind)], p_most)
    FROM dibs.queue_bands l LEFT JOIN LATERAL (SELECT x.sort_key FROM dibs.queue_marks x
      WHERE x.queue = p_queue AND x.kind = l.kind AND x.rank = l.rank ORDER BY x.sort_key LIMIT 1) m ON true
    WHERE l.queue = p_queue AND l.kind = ANY (p_kinds)
      AND (p_banned IS NULL OR l.kind <> ALL (p_banned)) AND coalesce(p_allowed[array_position(p_rated, l.kind)], 1) > 0
    GROUP BY l.kind, l.rank;
  END IF;
END $$;

-- The sort keys of the first p_need available tasks without a limit of some bands, no more of each rated kind than
-- its rate allows. LATERAL with LIMIT reads the head of each band and no more.
CREATE FUNCTION dibs.queue_heads(p_queue bigint, p_kinds bigint[], p_ranks int[], p_lows bigint[], p_most int[], p_need int)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN ARRAY(
    SELECT h.sort_key FROM (
      SELECT t.sort_key, l.most, row_number() OVER (PARTITION BY l.kind ORDER BY t.sort_key) AS n
      FROM unnest(p_kinds, p_ranks, p_lows, p_most) l(kind, rank, low, most),
        LATERAL (SELECT x.sort_key FROM dibs.tasks x WHERE x.queue = p_queue AND x.kind = l.kind AND x.state = 1
          AND x.sort_key >= l.low AND x.sort_key < (l.rank + 1)::bigint << 53 ORDER BY x.sort_key LIMIT least(p_need, l.most)) t
    ) h WHERE h.n <= h.most ORDER BY h.sort_key LIMIT p_need);
END $$;

-- Limits.

-- The options of a task; NULL where they are none that anybody can read, so that one row stops no statement.
CREATE FUNCTION dibs.queue_options(p text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN CASE WHEN jsonb_typeof(p::jsonb) = 'object' THEN p::jsonb END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN NULL;
END $$;

-- Makes the rows of limits that only transactions of callers have named so far, from tasks under them: such a
-- transaction must not lock a limit, so it makes none. In the order of the limits.
CREATE FUNCTION dibs.queue_add_limits(p_ns text, p_ids bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  INSERT INTO dibs.queue_limits (lim, ns, key, slots)
  SELECT DISTINCT ON (t.lim) t.lim, p_ns, coalesce(dibs.queue_options(t.options) -> 'limit' ->> 'key', ''), t.slots
  FROM dibs.tasks t WHERE t.id = ANY (p_ids) AND t.lim IS NOT NULL AND (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = t.lim) IS NULL
  ORDER BY t.lim
  ON CONFLICT DO NOTHING;
END $$;

-- Notes that somebody must look at a limit. A limit without a row, under which nobody is blocked, needs no look.
CREATE FUNCTION dibs.queue_note(p_ns text, p_lim uuid) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  INSERT INTO dibs.queue_notes SELECT p_ns, p_lim, 0
  WHERE EXISTS (SELECT FROM dibs.queue_limits WHERE lim = p_lim) OR EXISTS (SELECT FROM dibs.tasks WHERE state = 4 AND lim = p_lim);
END $$;

-- Limits with notes in queue_notes, p_most at most, and for each that has no row yet one of its blocked tasks, from
-- which queue_add_limits can make the row.
CREATE FUNCTION dibs.queue_noted(p_ns text, p_most int, OUT lims uuid[], OUT ids bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  lims := ARRAY(SELECT d.lim FROM (SELECT DISTINCT f.lim FROM (SELECT x.lim FROM dibs.queue_notes x WHERE x.ns = p_ns LIMIT dibs.queue_bound()) f) d
    WHERE coalesce((SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = d.lim), (SELECT t.lim FROM dibs.tasks t WHERE t.state = 4 AND t.lim = d.lim LIMIT 1)) IS NOT NULL
    LIMIT p_most);
  ids := ARRAY(SELECT (SELECT t.id FROM dibs.tasks t WHERE t.state = 4 AND t.lim = v LIMIT 1)
    FROM unnest(lims) v WHERE (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = v) IS NULL);
END $$;

-- The sub-queues in which tasks of a limit are nominated (state 3) or blocked (4), found by one index probe each. Of
-- more sub-queues than one step may look at, it returns the first hundred and a hundred from a random place on, so
-- that all have their turn.
CREATE FUNCTION dibs.queue_subqueues(p_lim uuid, p_state smallint) RETURNS TABLE (queue bigint, kind bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  most CONSTANT int := 100;
  q    bigint := -9223372036854775808;
  k    bigint := -9223372036854775808;
  n    int;
BEGIN
  FOR round IN 1 .. 2 LOOP
    IF p_state = 3 THEN
      RETURN QUERY WITH RECURSIVE subqueues AS (
        (SELECT queue, kind, 1 AS n FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND (queue, kind) >= (q, k) ORDER BY queue, kind LIMIT 1)
        UNION ALL
        SELECT n.queue, n.kind, p.n + 1 FROM subqueues p, LATERAL (
          SELECT queue, kind FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND (queue, kind) > (p.queue, p.kind)
          ORDER BY queue, kind LIMIT 1) n WHERE p.n < most
      )
      SELECT subqueues.queue, subqueues.kind FROM subqueues;
    ELSE
      RETURN QUERY WITH RECURSIVE subqueues AS (
        (SELECT queue, kind, 1 AS n FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND (queue, kind) >= (q, k) ORDER BY queue, kind LIMIT 1)
        UNION ALL
        SELECT n.queue, n.kind, p.n + 1 FROM subqueues p, LATERAL (
          SELECT queue, kind FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND (queue, kind) > (p.queue, p.kind)
          ORDER BY queue, kind LIMIT 1) n WHERE p.n < most
      )
      SELECT subqueues.queue, subqueues.kind FROM subqueues;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    EXIT WHEN n < most;
    q := ((random() - 0.5) * 18e18)::bigint;
  END LOOP;
END $$;

-- Brings a limit in order after its slots or its tasks changed (Q5): in every sub-queue the first tasks are
-- nominated, as many as there are free slots, and all others are blocked. Returns how many were nominated. The caller
-- has the limit locked, so this is in the same transaction as what freed the slot.
--
-- It moves 1,000 tasks each way at most: the fetches that take the nominees nominate the next. A task that another
-- transaction has locked is passed over. What was passed over or was too much is noted in queue_notes. A blocked task
-- that has expired is not nominated: queue_expire ends it, and nobody waits behind it.
CREATE FUNCTION dibs.queue_settle(p_lim uuid) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  bound CONSTANT int := dibs.queue_bound();
  l     dibs.queue_limits;
  subqueue record;
  free  int;
  want  int;
  n     int;
  back  int := 0;
  moved int := 0;
  more  bool := false;
  t_now bigint := dibs.now_us();
BEGIN
  SELECT * INTO l FROM dibs.queue_limits WHERE lim = p_lim;
  IF NOT FOUND THEN
    RETURN 0; -- a fetch sees its nominees, and makes it
  END IF;
  free := least(greatest(l.slots - l.running, 0), bound);
  IF free < bound THEN
    FOR subqueue IN SELECT * FROM dibs.queue_subqueues(p_lim, 3::smallint) LOOP
      IF back >= bound THEN
        more := true;
        EXIT;
      END IF;
      UPDATE dibs.tasks SET state = 4 WHERE id = ANY (ARRAY(
        SELECT id FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND queue = subqueue.queue AND kind = subqueue.kind
          AND (contention IS NULL OR contention = 3)
        ORDER BY sort_key OFFSET free LIMIT bound - back FOR NO KEY UPDATE SKIP LOCKED));
      GET DIAGNOSTICS n = ROW_COUNT;
      back := back + n;
    END LOOP;
  END IF;
  IF free > 0 THEN
    FOR subqueue IN SELECT * FROM dibs.queue_subqueues(p_lim, 4::smallint) LOOP
      IF moved >= bound THEN
        more := true;
        EXIT;
      END IF;
      SELECT count(*) INTO want FROM (
        SELECT FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND queue = subqueue.queue AND kind = subqueue.kind
          AND (contention IS NULL OR contention = 3)
        LIMIT free) have;
      CONTINUE WHEN want >= free;
      n := least(free - want, bound - moved);
      more := more OR n < free - want;
      want := n;
      UPDATE dibs.tasks SET state = 3 WHERE id = ANY (ARRAY(
        SELECT id FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND queue = subqueue.queue AND kind = subqueue.kind
          AND (expires IS NULL OR expires > t_now)
        ORDER BY sort_key LIMIT want FOR NO KEY UPDATE SKIP LOCKED));
      GET DIAGNOSTICS n = ROW_COUNT;
      moved := moved + n;
      PERFORM dibs.queue_notify(subqueue.queue, false);
      more := more OR n < want AND EXISTS (
        SELECT FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND queue = subqueue.queue AND kind = subqueue.kind
          AND (expires IS NULL OR expires > t_now));
    END LOOP;
  END IF;
  IF more THEN
    INSERT INTO dibs.queue_notes VALUES (l.ns, p_lim, 0);
  END IF;
  RETURN moved;
END $$;

-- Acts on the notes of limits that the caller has locked: counts freed slots off and settles the limit, as much as
-- one step may. Freed slots are counted off with the deletion of their notes, so none is counted twice.
CREATE FUNCTION dibs.queue_settle_noted(p_lims uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  bound CONSTANT int := dibs.queue_bound();
  l     uuid;
  freed bigint;
  moved int := 0;
BEGIN
  FOREACH l IN ARRAY p_lims LOOP
    EXIT WHEN moved >= bound;
    WITH worked_off AS (
      DELETE FROM dibs.queue_notes y WHERE y.ctid = ANY (ARRAY(
        SELECT d.ctid FROM dibs.queue_limits x JOIN dibs.queue_notes d ON d.ns = x.ns AND d.lim = x.lim WHERE x.lim = l LIMIT bound))
      RETURNING y.freed
    )
    SELECT coalesce(sum(p.freed), 0) INTO freed FROM worked_off p;
    UPDATE dibs.queue_limits SET running = greatest(running - freed, 0) WHERE lim = l AND freed > 0;
    moved := moved + dibs.queue_settle(l);
  END LOOP;
END $$;

-- Sets what a task declares of its limit: the last declaration wins and is an event (Q5). While an operator's word
-- stands it is only remembered. The caller has the limit locked, and settles it.
CREATE FUNCTION dibs.queue_resize(p_lim uuid, p_slots int, p_declared bigint, p_by text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  l dibs.queue_limits;
BEGIN
  SELECT * INTO l FROM dibs.queue_limits WHERE lim = p_lim;
  IF l.said IS NOT NULL THEN
    UPDATE dibs.queue_limits SET said = p_slots, heard = greatest(heard, p_declared) WHERE lim = p_lim;
    RETURN;
  END IF;
  UPDATE dibs.queue_limits SET slots = p_slots, declared = greatest(declared, p_declared) WHERE lim = p_lim;
  IF l.slots <> p_slots THEN
    PERFORM dibs.queue_event(l.ns, 'limit-changed', to_json(l.key)::text || ' from ' || l.slots || ' to ' || p_slots
      || CASE WHEN p_by = '' THEN '' ELSE ' by ' || p_by END);
  END IF;
END $$;

-- Makes and locks the limits of tasks that are about to be taken in, and of tasks that they may replace (p_uniq), in
-- the order of the keys. It must come before anything that touches a task: see Locks above. What the tasks
-- declare is set after they were taken in (queue_declared). A transaction of a caller's does none of this: a fetch
-- takes the declaration from the task.
CREATE FUNCTION dibs.queue_declare(p_ns text, p_lim uuid[], p_key text[], p_slots int[], p_uniq uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  lims uuid[];
  have int;
BEGIN
  LOOP
    INSERT INTO dibs.queue_limits (lim, ns, key, slots)
    SELECT DISTINCT ON (q.lim) q.lim, p_ns, q.key, q.slots
    FROM (
      SELECT * FROM unnest(p_lim, p_key, p_slots) WITH ORDINALITY u(lim, key, slots, n)
      UNION ALL
      SELECT t.lim, coalesce(dibs.queue_options(t.options) -> 'limit' ->> 'key', ''), t.slots, 0 -- as in queue_add_limits
      FROM unnest(p_uniq) u(uniq), LATERAL (SELECT * FROM dibs.tasks WHERE uniq = u.uniq AND held OFFSET 0) t WHERE t.lim IS NOT NULL
    ) q
    WHERE (SELECT k.lim FROM dibs.queue_limits k WHERE k.lim = q.lim) IS NULL
    ORDER BY q.lim, n DESC
    ON CONFLICT DO NOTHING;
    lims := p_lim || ARRAY(SELECT t.lim FROM unnest(p_uniq) q(u), LATERAL (SELECT lim FROM dibs.tasks WHERE uniq = q.u AND held OFFSET 0) t WHERE t.lim IS NOT NULL);
    SELECT count(*) INTO have FROM (SELECT FROM dibs.queue_limits k WHERE k.lim = ANY (lims) ORDER BY k.lim FOR NO KEY UPDATE) k;
    -- A limit may have been forgotten (queue_repair) while it was waited for. Then it is made anew.
    EXIT WHEN have = (SELECT count(DISTINCT v) FROM unnest(lims) v);
  END LOOP;
END $$;

-- Sets what tasks that were just taken in declare of their limits: of several the last one wins. The limits are
-- locked. Returns whether any limit changed.
CREATE FUNCTION dibs.queue_declared(p_lim uuid[], p_slots int[], p_ids bigint[], p_taken bigint[]) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  l       record;
  changed bool := false;
BEGIN
  FOR l IN
    SELECT DISTINCT ON (q.lim) q.lim, q.slots, q.id, min(q.slots) OVER w <> max(q.slots) OVER w AS mixed
    FROM unnest(p_lim, p_slots, p_ids) q(lim, slots, id)
    WHERE q.lim IS NOT NULL AND q.id = ANY (p_taken)
    WINDOW w AS (PARTITION BY q.lim)
    ORDER BY q.lim, q.id DESC
  LOOP
    -- A fetch must know that those before the last one have been heard.
    IF l.mixed OR l.slots <> (SELECT coalesce(said, slots) FROM dibs.queue_limits WHERE lim = l.lim) THEN
      PERFORM dibs.queue_resize(l.lim, l.slots, l.id, '');
      PERFORM dibs.queue_settle(l.lim);
      changed := true;
    END IF;
  END LOOP;
  RETURN changed;
END $$;

-- An operator's word on a limit; p_slots 0 takes it back. Returns whether there is such a limit. It locks the limit,
-- records the change as an event, and promotes or steps tasks back in the same transaction. What runs is left alone.
CREATE FUNCTION dibs.queue_say(p_lim uuid, p_of uuid, p_slots int, p_by text) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  l     dibs.queue_limits;
  words text := '';
BEGIN
  SELECT * INTO l FROM dibs.queue_limits WHERE lim = p_lim FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF p_slots = 0 AND l.said IS NULL OR l.said IS NOT NULL AND l.slots = p_slots THEN
    RETURN true;
  END IF;
  IF p_slots > 0 THEN
    UPDATE dibs.queue_limits SET slots = p_slots, said = coalesce(said, slots), heard = coalesce(heard, declared),
      declared = 9223372036854775807, said_of = p_of, said_by = p_by, said_at = dibs.now_us() WHERE lim = p_lim;
  ELSE
    p_slots := l.said;
    words := ', as its tasks declare,';
    UPDATE dibs.queue_limits SET slots = said, declared = heard, said = NULL, heard = NULL, said_of = NULL, said_by = '', said_at = 0 WHERE lim = p_lim;
  END IF;
  PERFORM dibs.queue_event(l.ns, 'limit-changed', to_json(l.key)::text || ' from ' || l.slots || ' to ' || p_slots || words
    || CASE WHEN p_by = '' THEN '' ELSE ' by ' || p_by END);
  PERFORM dibs.queue_settle(p_lim);
  RETURN true;
END $$;

-- The periodic repair of limits (Q5): checks those that were not checked for longest, a minute at least. It compares
-- what is counted with what runs, and promotes tasks that were forgotten. Returns how many were wrong, which is a
-- counter: it should stay 0. Where more than 10,000 tasks run under one limit they are not counted. It also acts on
-- notes, and forgets unused limits.
CREATE FUNCTION dibs.queue_repair(p_ns text, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  many  CONSTANT int := 10 * dibs.queue_bound();
  t_now bigint := dibs.now_us();
  lims  uuid[] := ARRAY(SELECT lim FROM dibs.queue_limits WHERE ns = p_ns AND checked < t_now - 60000000 ORDER BY checked LIMIT p_most);
  noted  record;
  l     dibs.queue_limits;
  n     bigint;
  moved int;
  wrong int := 0;
BEGIN
  SELECT * INTO noted FROM dibs.queue_noted(p_ns, p_most);
  PERFORM dibs.queue_add_limits(p_ns, noted.ids);
  PERFORM FROM dibs.queue_limits WHERE lim = ANY (lims || noted.lims) ORDER BY lim FOR NO KEY UPDATE;
  PERFORM dibs.queue_settle_noted(lims || noted.lims);
  FOR l IN SELECT * FROM dibs.queue_limits WHERE lim = ANY (lims) ORDER BY lim LOOP
    IF l.running = 0 AND l.said IS NULL AND greatest(l.token, l.since) < t_now - 86400000000
      AND NOT EXISTS (SELECT FROM dibs.tasks WHERE lim = l.lim AND state = 3) AND NOT EXISTS (SELECT FROM dibs.tasks WHERE lim = l.lim AND state = 4)
      AND NOT EXISTS (SELECT FROM dibs.tasks WHERE lim = l.lim AND state = 5) AND NOT EXISTS (SELECT FROM dibs.queue_notes WHERE ns = l.ns AND lim = l.lim) THEN
      DELETE FROM dibs.queue_limits WHERE lim = l.lim;
      CONTINUE;
    END IF;
    -- The count includes slots that a caller's transaction has freed and nobody has acted on yet, as of the same
    -- instant.
    SELECT (SELECT count(*) FROM (SELECT FROM dibs.tasks WHERE lim = l.lim AND state = 5 LIMIT many) r)
      + (SELECT coalesce(sum(freed), 0) FROM dibs.queue_notes WHERE ns = l.ns AND lim = l.lim) INTO n;
    IF n >= many THEN
      n := l.running;
    END IF;
    UPDATE dibs.queue_limits SET checked = t_now, running = n WHERE lim = l.lim;
    IF n <> l.running THEN
      wrong := wrong + 1;
    END IF;
    moved := dibs.queue_settle(l.lim);
    IF NOT EXISTS (SELECT FROM dibs.queue_notes WHERE ns = l.ns AND lim = l.lim) THEN -- else the rest is the next step's
      wrong := wrong + moved;
    END IF;
  END LOOP;
  -- Notes of limits that have no row and no blocked task.
  DELETE FROM dibs.queue_notes WHERE ctid = ANY (ARRAY(
    SELECT d.ctid FROM (SELECT x.ctid, x.lim FROM dibs.queue_notes x WHERE x.ns = p_ns LIMIT dibs.queue_bound()) d
    WHERE (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = d.lim) IS NULL
      AND (SELECT t.lim FROM dibs.tasks t WHERE t.state = 4 AND t.lim = d.lim LIMIT 1) IS NULL));
  RETURN wrong;
END $$;

-- Enqueue.

-- Inserts item p_only of the batch, or with null all of it, and returns the ids of those whose unique key was free
-- (Q1). Rows go in in the order of the keys, so two batches with the same keys wait for each other in one order. ON
-- CONFLICT waits for a transaction that has inserted the same key and not ended, for lock_timeout at most.
CREATE FUNCTION dibs.queue_insert(
  p_only int, p_ids bigint[], p_now bigint, p_states smallint[],
  p_queue bigint[], p_kind bigint[], p_rank int[], p_args text[], p_options text[], p_due bigint[], p_delay bigint[], p_expires bigint[],
  p_uniq uuid[], p_hold bigint[], p_lim uuid[], p_slots int[], p_contention smallint[])
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
RETURN QUERY
INSERT INTO dibs.tasks (id, sort_key, queue, kind, enqueued, due, expires, hold, uniq, lim, slots, state, contention, held, args, options)
SELECT q.id, q.rank::bigint << 53 | q.id, q.queue, q.kind, p_now, CASE WHEN q.due = 0 THEN p_now ELSE q.due END + q.delay,
       nullif(q.expires, 0), CASE WHEN q.uniq IS NOT NULL THEN q.hold END,
       q.uniq, q.lim, nullif(q.slots, 0), q.state, nullif(q.contention, 0::smallint), q.uniq IS NOT NULL, q.args, nullif(q.options, '')
FROM unnest(p_ids, p_states, p_queue, p_kind, p_rank, p_args, p_options, p_due, p_delay, p_expires, p_uniq, p_hold, p_lim, p_slots, p_contention)
  WITH ORDINALITY q(id, state, queue, kind, rank, args, options, due, delay, expires, uniq, hold, lim, slots, contention, n)
WHERE p_only IS NULL OR q.n = p_only
ORDER BY q.uniq, q.n
ON CONFLICT (uniq) WHERE held DO NOTHING
RETURNING id;
END $$;

-- Takes in tasks with a unique key or a limit, no key twice (promises 16 and 17; Q1, Q2, Q3). The limits are locked
-- already: see queue_declare. p_own: in a transaction of a caller's. p_wait: how long other transactions are waited
-- for, in ms, in all (lock_wait, Q2). Answers for each item: 1 enqueued, 2 duplicate, 3 replaced, 4 undecided; task
-- and stands are the id and the state of the task that was taken in or met.
--
-- First all items are inserted at once, in the order of their keys. If that waits for too long, each is inserted
-- alone, so that one contended key makes one item undecided and not the batch. Then each item that met a holder of
-- its key is decided: the holder may have expired or its window may be over, then the item goes in; it may be
-- replaced; or the item is a duplicate. In a caller's transaction a waiting holder is share-locked, so it cannot
-- start before the caller commits (Q2).
--
-- lock_timeout is set for each wait, and put back at the end. The exception blocks are subtransactions: what was done
-- in one before its timeout is undone, and nothing else.
CREATE FUNCTION dibs.queue_admit(
  p_ns text, p_own boolean, p_wait int,
  p_queue bigint[], p_kind bigint[], p_rank int[], p_args text[], p_options text[], p_due bigint[], p_delay bigint[], p_expires bigint[],
  p_uniq uuid[], p_hold bigint[], p_again smallint[], p_longest bigint[],
  p_lim uuid[], p_slots int[], p_contention smallint[])
RETURNS TABLE (i int, answer smallint, task bigint, stands smallint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  t_now  bigint;
  till   bigint := dibs.now_us() + p_wait * 1000::bigint;
  ids    bigint[];
  states smallint[];
  taken  bigint[];
  passed int[];
  there  dibs.tasks;
  x      int;
  patience text := current_setting('lock_timeout');
BEGIN
  t_now := dibs.queue_now(); -- before ids are drawn: see queue_bands
  ids := ARRAY(SELECT nextval('dibs.task_ids') FROM generate_series(1, cardinality(p_queue)));
  IF p_lim IS NULL THEN
    states := ARRAY(SELECT CASE WHEN CASE WHEN d = 0 THEN t_now ELSE d END + delay > t_now THEN 0 ELSE 1 END
      FROM unnest(p_due, p_delay) q(d, delay));
  ELSE
  states := ARRAY(
    SELECT CASE
      WHEN q.due > t_now THEN 0
      WHEN q.lim IS NULL THEN 1
      WHEN q.contention IN (1, 2) THEN 3
      WHEN p_own THEN CASE WHEN q.uniq IS NOT NULL OR q.nth = 1 THEN 3 ELSE 4 END
      WHEN q.nth <= least(k.slots - k.running, dibs.queue_bound()) - (
        SELECT count(*) FROM (SELECT FROM dibs.tasks t WHERE t.state = 3 AND t.lim = q.lim AND t.queue = q.queue AND t.kind = q.kind
          AND (t.contention IS NULL OR t.contention = 3) LIMIT least(greatest(k.slots - k.running, 0), dibs.queue_bound())) have) THEN 3
      ELSE 4 END
    FROM (SELECT *, CASE WHEN d = 0 THEN t_now ELSE d END + delay AS due,
                 row_number() OVER (PARTITION BY lim, queue, kind, contention IN (1, 2), CASE WHEN d = 0 THEN t_now ELSE d END + delay > t_now ORDER BY rank, n) AS nth
          FROM unnest(p_queue, p_kind, p_rank, p_due, p_delay, p_uniq, p_lim, p_contention)
            WITH ORDINALITY q(queue, kind, rank, d, delay, uniq, lim, contention, n)) q
    LEFT JOIN LATERAL (SELECT slots, running FROM dibs.queue_limits WHERE lim = q.lim OFFSET 0) k ON true
    ORDER BY q.n);
  END IF;

  -- All at once, in the order of the keys. An item whose key another transaction is taking waits for that one. If the
  -- wait is too long, each item tries alone.
  BEGIN
    PERFORM set_config('lock_timeout', p_wait || 'ms', true);
    taken := ARRAY(SELECT v FROM dibs.queue_insert(NULL, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_options, p_due, p_delay, p_expires,
      p_uniq, p_hold, p_lim, p_slots, p_contention) v);
  EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    taken := '{}';
    FOR x IN SELECT n FROM unnest(p_uniq) WITH ORDINALITY q(u, n) ORDER BY u NULLS LAST, n LOOP
      BEGIN
        PERFORM set_config('lock_timeout', greatest((till - dibs.now_us()) / 1000, 1) || 'ms', true);
        taken := taken || ARRAY(SELECT v FROM dibs.queue_insert(x, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_options, p_due, p_delay, p_expires,
          p_uniq, p_hold, p_lim, p_slots, p_contention) v);
      EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        i := x; answer := 4; task := 0; stands := 0;
        passed := passed || x;
        RETURN NEXT;
      END;
    END LOOP;
  END;
  IF NOT p_own AND p_lim IS NOT NULL AND dibs.queue_declared(p_lim, p_slots, ids, taken) THEN
    states := ARRAY(SELECT coalesce((SELECT t.state FROM dibs.tasks t WHERE t.id = q.id), q.s) FROM unnest(ids, states) WITH ORDINALITY q(id, s, n) ORDER BY q.n);
  END IF;
  IF cardinality(taken) = cardinality(ids) THEN
    PERFORM set_config('lock_timeout', patience, true);
    RETURN QUERY SELECT n::int, 1::smallint, q.id, q.s FROM unnest(ids, states) WITH ORDINALITY q(id, s, n);
    RETURN;
  END IF;
  RETURN QUERY SELECT n::int, 1::smallint, q.id, q.s FROM unnest(ids, states) WITH ORDINALITY q(id, s, n) WHERE q.id = ANY (taken);

  -- What is left has met a task that holds its key.
  FOR x IN SELECT n FROM unnest(p_uniq, ids) WITH ORDINALITY q(u, id, n)
    WHERE NOT q.id = ANY (taken) AND (passed IS NULL OR NOT n = ANY (passed)) ORDER BY u LOOP
    BEGIN
      i := x; answer := NULL;
      WHILE answer IS NULL LOOP
        PERFORM set_config('lock_timeout', greatest((till - dibs.now_us()) / 1000, 1) || 'ms', true);
        there := NULL;
        IF p_own OR p_again[x] > 0 THEN
          -- A task that waits must not start before we have committed; one that runs is left alone.
          IF p_again[x] > 0 THEN
            SELECT * INTO there FROM dibs.tasks WHERE uniq = p_uniq[x] AND held AND state <> 5 FOR NO KEY UPDATE;
          ELSE
            SELECT * INTO there FROM dibs.tasks WHERE uniq = p_uniq[x] AND held AND state <> 5 FOR SHARE;
          END IF;
        END IF;
        IF there.id IS NULL THEN
          SELECT * INTO there FROM dibs.tasks WHERE uniq = p_uniq[x] AND held;
        END IF;
        t_now := dibs.now_us();
        IF there.id IS NULL THEN
          NULL; -- it has gone meanwhile
        ELSIF there.state NOT IN (5, 10) AND there.expires <= t_now THEN
          PERFORM FROM dibs.tasks WHERE id = there.id AND state::int NOT IN (5, 10) AND expires <= t_now FOR NO KEY UPDATE;
          IF FOUND THEN -- else it has been fetched in time
            PERFORM dibs.queue_discard(ARRAY[there.id], 'expired', t_now);
            PERFORM dibs.queue_note(p_ns, there.lim);
          END IF;
        ELSIF there.state = 10 AND there.ended + there.hold <= t_now THEN
          PERFORM dibs.queue_free(ARRAY[there.id]);
        ELSIF there.state NOT IN (5, 10) AND jsonb_typeof(dibs.queue_options(there.options) -> 'unique') IS DISTINCT FROM 'object' THEN
          PERFORM FROM dibs.tasks WHERE id = there.id AND state::int NOT IN (5, 10) FOR NO KEY UPDATE;
          IF FOUND THEN -- it is damaged: nobody could run it
            PERFORM dibs.queue_discard(ARRAY[there.id], 'damaged', t_now);
            PERFORM dibs.queue_note(p_ns, there.lim);
          END IF;
        ELSIF p_again[x] = 0 OR there.state IN (5, 10) AND there.hold >= 0 THEN
          answer := 2; -- who holds its key until the end, or in a window, is not replaced (promise 17)
        ELSIF there.state NOT IN (5, 10) THEN
          -- It takes over what is new, and keeps its id, and so its position within its priority (rule Q3).
          IF p_again[x] = 2 THEN
            there.due := least(t_now + p_delay[x], there.enqueued + p_longest[x]);
          ELSE
            there.due := CASE WHEN p_due[x] = 0 THEN t_now ELSE p_due[x] END + p_delay[x];
          END IF;
          IF there.lim IS NOT NULL AND NOT p_own THEN
            PERFORM FROM dibs.queue_limits WHERE lim = there.lim FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
              -- The key has changed hands since the limits were locked. The store begins again.
              RAISE EXCEPTION 'the limit of task % is not locked', there.id USING ERRCODE = 'DIBS1';
            END IF;
          END IF;
          there.state := CASE WHEN there.due > t_now THEN CASE WHEN there.state = 6 THEN 6 ELSE 0 END
                              WHEN there.lim IS NOT NULL THEN 3 WHEN there.suspect THEN 2 ELSE 1 END;
          UPDATE dibs.tasks SET args = p_args[x], due = there.due, state = there.state,
            options = ((dibs.queue_options(options) - 'tags') || jsonb_strip_nulls(jsonb_build_object('tags', p_options[x]::jsonb -> 'tags')))::text,
            sort_key = (CASE WHEN sort_key >> 53 < 19 THEN 0 ELSE 19 END + p_rank[x] % 19)::bigint << 53 | id,
            granted = attempts, snoozes = 0
          WHERE id = there.id;
          PERFORM dibs.queue_put_back(ARRAY[there.id]);
          IF there.lim IS NOT NULL AND p_own THEN
            PERFORM dibs.queue_note(p_ns, there.lim);
          ELSIF there.lim IS NOT NULL THEN
            PERFORM dibs.queue_settle(there.lim);
            SELECT state INTO there.state FROM dibs.tasks WHERE id = there.id;
          END IF;
          answer := 3;
        ELSE
          -- A worker has the arguments of the old task already. The new ones make a task of their own, which has the
          -- key from now on.
          UPDATE dibs.tasks SET held = false WHERE id = there.id AND uniq = p_uniq[x] AND held;
        END IF;
        IF answer IS NULL THEN
          taken := ARRAY(SELECT v FROM dibs.queue_insert(x, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_options, p_due, p_delay, p_expires,
            p_uniq, p_hold, p_lim, p_slots, p_contention) v);
          IF taken <> '{}' THEN
            IF NOT p_own AND p_lim IS NOT NULL THEN
              PERFORM dibs.queue_declared(p_lim, p_slots, ids, taken);
            END IF;
            answer := 1; task := ids[x]; stands := states[x];
          END IF;
        ELSE
          task := there.id; stands := there.state;
        END IF;
      END LOOP;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      i := x; answer := 4; task := 0; stands := 0;
    END;
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('lock_timeout', patience, true);
  -- Tasks that were not taken in may have been counted as nominees above.
  IF p_own THEN
    PERFORM dibs.queue_note(p_ns, v) FROM (SELECT DISTINCT unnest(p_lim)) q(v) WHERE v IS NOT NULL;
  ELSE
    PERFORM dibs.queue_settle(v) FROM (SELECT DISTINCT unnest(p_lim)) q(v) WHERE v IS NOT NULL;
  END IF;
END $$;

-- Fetch, start and finish.

-- Makes due tasks of a queue available, p_most at most, the earliest first; those that others have are passed over
-- (SKIP LOCKED). In each sub-queue of a limit the first one becomes a nominee and the rest are blocked. That needs no
-- lock on the limit: a nominee only asks a fetch to look, and it commits together with the blocked ones behind it.
CREATE FUNCTION dibs.queue_make_due(p_queue bigint, p_now bigint, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ids bigint[];
BEGIN
  ids := ARRAY(
    SELECT id FROM dibs.tasks WHERE queue = p_queue AND state IN (0, 6) AND due <= p_now
    ORDER BY due LIMIT p_most FOR NO KEY UPDATE SKIP LOCKED);
  UPDATE dibs.tasks t
  SET state = CASE WHEN t.lim IS NULL THEN CASE WHEN t.suspect THEN 2 ELSE 1 END
                   WHEN r.n = 1 OR t.contention IN (1, 2) THEN 3 ELSE 4 END
  FROM (SELECT id, row_number() OVER (PARTITION BY lim, queue, kind ORDER BY sort_key) AS n FROM dibs.tasks WHERE id = ANY (ids)) r
  WHERE t.id = r.id;
  PERFORM dibs.queue_put_back(ids);
  PERFORM dibs.queue_notify(p_queue, false);
  RETURN cardinality(ids);
END $$;

-- The same for several queues, p_most tasks in all.
CREATE FUNCTION dibs.queue_make_due_all(p_queues bigint[], p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  this  bigint;
  t_now bigint := dibs.now_us();
  n     int := 0;
BEGIN
  FOREACH this IN ARRAY p_queues LOOP
    EXIT WHEN n >= p_most;
    IF EXISTS (SELECT FROM dibs.tasks t WHERE t.queue = this AND t.state IN (0, 6) AND t.due <= t_now) THEN
      n := n + dibs.queue_make_due(this, t_now, p_most - n);
    END IF;
  END LOOP;
  RETURN n;
END $$;

-- What is paused of a queue: all of it, or some kinds.
CREATE FUNCTION dibs.queue_banned(p_ns text, p_queue bigint, p_now bigint, OUT closed bool, OUT kinds bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  SELECT coalesce(bool_or(z.kind = ''), false), coalesce(array_agg(z.k) FILTER (WHERE z.kind <> ''), '{}') INTO closed, kinds
  FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > p_now) AND (z.queue = '' OR z.q = p_queue);
END $$;

-- The ids of the first p_most nominees of some kinds of a queue, in the order of their sort keys.
CREATE FUNCTION dibs.queue_nominees(p_queue bigint, p_kinds bigint[], p_most int) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN ARRAY(SELECT w.id FROM (SELECT DISTINCT unnest(p_kinds) AS kind) k,
    LATERAL (SELECT t.id, t.sort_key FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = k.kind AND t.state = 3 AND t.sort_key >= 0
      ORDER BY t.sort_key LIMIT p_most) w
    ORDER BY w.sort_key LIMIT p_most);
END $$;

-- The sort key of the first suspect without a limit, which is locked; null if there is none, or if others have it
-- (Q4). With p_crashers it may also be one that took a worker down already.
CREATE FUNCTION dibs.queue_suspect(p_queue bigint, p_kinds bigint[], p_crashers bool) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN (SELECT w.sort_key FROM (SELECT DISTINCT unnest(p_kinds) AS kind) k,
    LATERAL (SELECT t.sort_key FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = k.kind AND t.state = 2 AND (p_crashers OR t.crashes = 0)
      ORDER BY t.sort_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w
    ORDER BY w.sort_key LIMIT 1);
END $$;

-- For Replace (displace) under a crowded limit: the newest displacing task that a fetch from some kinds of a queue
-- may see. Null if the limit has fewer than a hundred such tasks. All older ones give way to the newest in the end,
-- so a fetch with many of them asks for it alone instead of looking at each.
CREATE FUNCTION dibs.queue_newest(p_lim uuid, p_queue bigint, p_kinds bigint[]) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  few CONSTANT int := 100;
BEGIN
  IF (SELECT count(*) FROM (SELECT FROM dibs.tasks t WHERE t.contention IN (2, 3) AND t.state IN (3, 4) AND t.lim = p_lim LIMIT few) r) < few THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT max(r.id) FROM (SELECT t.* FROM dibs.tasks t WHERE t.contention IN (2, 3) AND t.state IN (3, 4) AND t.lim = p_lim ORDER BY t.id DESC LIMIT few) r
    WHERE r.state = 3 AND r.contention = 2 AND r.queue = p_queue AND r.kind = ANY (p_kinds) AND NOT r.suspect);
END $$;

-- How many tasks a rate allows at an instant.
CREATE FUNCTION dibs.queue_allowed(r dibs.queue_rates, p_now bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT greatest(least((r.burst - (greatest(r.busy, p_now) - p_now)) / r.every,
    r.most - (SELECT coalesce(sum(t.n), 0) FROM unnest(r.taken_at, r.taken) t(at, n) WHERE t.at > p_now - r.per)), 0)
$$;

-- Takes tasks out of a rate, whose row the caller has locked.
CREATE FUNCTION dibs.queue_take(p_ns text, p_kind bigint, p_n int, p_now bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
  r    dibs.queue_rates;
  last int;
BEGIN
  SELECT * INTO r FROM dibs.queue_rates x WHERE x.ns = p_ns AND x.k = p_kind;
  WHILE r.taken_at[1] <= p_now - r.per LOOP
    r.taken_at := r.taken_at[2:];
    r.taken := r.taken[2:];
  END LOOP;
  last := cardinality(r.taken_at);
  IF r.taken_at[last] / greatest(r.per / 16, 1) >= p_now / greatest(r.per / 16, 1) THEN
    r.taken_at[last] := greatest(r.taken_at[last], p_now);
    r.taken[last] := r.taken[last] + p_n;
  ELSE
    r.taken_at := r.taken_at || p_now;
    r.taken := r.taken || p_n;
  END IF;
  UPDATE dibs.queue_rates x SET busy = greatest(x.busy, p_now) + p_n * x.every, taken_at = r.taken_at, taken = r.taken
  WHERE x.ns = p_ns AND x.k = p_kind;
END $$;

-- Gives tasks to a worker (promises 18 and 19; L1, Q4, Q5, Q6). Returns a row for each task, and a last row, of task
-- 0, about the call: token is the clock, due the next instant at which a task becomes due (0: none is known),
-- attempts a sum of 1 the call is late, 2 the lease is not live, 4 there may be more at once, 8 all of the queues are
-- watched already, 16 more can be given at once, 32 the next task has more arguments than p_bytes allows.
--
-- p_most tasks at most, with p_bytes of arguments (0: any): p_used of these are used up by earlier calls. If none are,
-- one task is given whatever it has. p_suspects: one suspect may be given; p_crashers: also one that took a worker down. p_look:
-- how many times as many nominees as usual are looked at. Nominees that another transaction has locked stand in the
-- way of others, so the caller asks again with twice as many.
--
-- What it does, for each queue in order: makes due tasks available; gives tasks with a limit, from the nominees;
-- gives one suspect at most; gives all others, band by band; raises a floor now and then. Tasks are given in the
-- order of sort_key, across the three kinds: a task with a limit waits while enough tasks without one stand before it
-- (ahead).
--
-- Locks: the worker and the namespace, which fetches share; rates, then all limits that it may come to, then tasks.
-- All are waited for except tasks (SKIP LOCKED): what another fetch has is its. The clock is read again after each
-- wait, and not_after is checked again.
--
-- Bounds: 1,000 rows, or 200 tasks with a limit; flags 4 and 16 say that there is more.
--
-- Durability: a fetch that gave no slot commits without waiting for the disk. See the end.
CREATE FUNCTION dibs.queue_fetch(p_ns text, p_key bytea, p_owner text, p_token bigint, p_not_after bigint,
  p_queues bigint[], p_kinds bigint[], p_most int, p_suspects bool, p_crashers bool, p_look int, p_bytes bigint, p_used bigint)
RETURNS TABLE (task bigint, token bigint, sort_key bigint, queue bigint, kind bigint, due bigint, enqueued bigint, expires bigint,
  attempts int, granted int, crashes int, snoozes int, suspect bool, args text, options text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  bound   CONSTANT int := dibs.queue_bound();
  gap     CONSTANT bigint := 2048; -- dead tasks before a band's floor is worth raising
  me      int;
  t_now   bigint;
  this    bigint;
  need    int := p_most;
  had     int;
  flags   int := 0;
  next    bigint;
  soonest bigint := 0;
  pauses  bool;
  closed  bool;
  banned  bigint[];
  rated   bigint[];
  allowed int[];
  spent   bigint[];
  no_suspect bool := NOT p_suspects; -- no suspect is given any more
  lims    uuid[];                 -- that are locked
  noted   record;
  mine    uuid[];
  touched uuid[];                 -- limits to settle
  limited bool;
  filled  bool := false;          -- as many with a limit were given as one step may
  used    bigint := p_used;       -- bytes of arguments of those that were given
  sated   bool := false;          -- the next one has too many
  c       record;
  l       dibs.queue_limits;
  kinds   bigint[];               -- the bands that may be given from
  ranks   int[];
  lows    bigint[];
  rising  bool[];
  most    int[];
  ahead   bigint[];
  suspect_key bigint;             -- the sort key of the suspect without a limit that may be given
  given   int;
  pick    bigint;
  picked  tid[];
  ends    int := 0;               -- tasks that were ended so far, of those that are waited for no longer or that displace others
  wide    int;                    -- how many nominees of each queue it looks at
  reach   int;                    -- how many other tasks
  heads   bigint[];
  tip     bigint;
  n       int;
BEGIN
  -- The end of a worker takes this lock alone: see queue_leave.
  PERFORM pg_advisory_xact_lock_shared(1684628082, hashtext(p_owner));
  t_now := dibs.now_us();
  me := dibs.queue_worker(p_ns, p_key, p_owner, p_token);
  IF p_not_after <> 0 AND t_now > p_not_after THEN
    flags := 1;
  ELSIF me IS NULL THEN
    -- One that never joined, or has left.
    INSERT INTO dibs.queue_workers AS w (ns, key, owner, token, since)
    SELECT x.ns, x.key, x.owner, x.token, t_now FROM dibs.leases x
    WHERE x.key = p_key AND x.ns = p_ns AND x.owner = p_owner AND x.token = p_token AND x.expires > t_now
    ON CONFLICT (key, owner, token, ns) DO UPDATE SET gone = 0
    RETURNING w.id INTO me;
    IF me IS NULL THEN
      flags := 2;
    END IF;
  END IF;
  IF flags <> 0 THEN
    task := 0; token := t_now; due := 0; attempts := flags;
    RETURN NEXT;
    RETURN;
  END IF;
  -- A pause waits for this lock, so it waits for the fetches that are under way. Once it is acknowledged, nothing is
  -- given.
  PERFORM pg_advisory_xact_lock_shared(1684628081, hashtext(p_ns));
  pauses := EXISTS (SELECT FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > t_now));
  IF EXISTS (SELECT FROM dibs.queue_rates r WHERE r.ns = p_ns) THEN
    PERFORM FROM dibs.queue_rates r WHERE r.ns = p_ns AND (p_kinds IS NULL OR r.k = ANY (p_kinds)) ORDER BY r.k FOR NO KEY UPDATE;
    t_now := dibs.now_us();
    SELECT array_agg(r.k), array_agg(least(dibs.queue_allowed(r, t_now), p_most)::int)
    INTO rated, allowed
    FROM dibs.queue_rates r WHERE r.ns = p_ns AND (p_kinds IS NULL OR r.k = ANY (p_kinds));
  END IF;
  limited := EXISTS (SELECT FROM dibs.queue_limits x WHERE x.ns = p_ns) OR EXISTS (SELECT FROM dibs.queue_notes d WHERE d.ns = p_ns) OR EXISTS (
    SELECT FROM unnest(p_queues) v(v), LATERAL (SELECT FROM dibs.tasks t WHERE t.queue = v.v AND t.state = 3 AND t.sort_key >= 0 LIMIT 1) w);
  IF limited THEN
    limited := NOT dibs.queue_held(p_ns); -- before any lock, since it may write to the namespace's row
  END IF;
  wide := least((2 * least(need, 200) + 20) * p_look, 2 * bound);
  IF limited THEN
    -- The limits that it comes to below, and those with notes. They are locked before any task is: an enqueue has
    -- limits locked, and may wait for a task's unique key.
    spent := '{}';
    FOREACH this IN ARRAY p_queues LOOP
      CONTINUE WHEN NOT EXISTS (SELECT FROM dibs.tasks t WHERE t.queue = this AND t.state = 3 AND t.sort_key >= 0 LIMIT 1);
      SELECT b.closed, b.kinds INTO closed, banned FROM dibs.queue_banned(p_ns, this, t_now) b;
      CONTINUE WHEN closed;
      kinds := ARRAY(SELECT o.kind FROM dibs.queue_open(this, p_kinds, banned, rated, allowed, 1000000) o);
      spent := spent || dibs.queue_nominees(this, kinds, wide);
    END LOOP;
    SELECT * INTO noted FROM dibs.queue_noted(p_ns, 100);
    PERFORM dibs.queue_add_limits(p_ns, spent || noted.ids);
    lims := ARRAY(SELECT x.lim FROM dibs.queue_limits x
      WHERE x.lim = ANY (noted.lims || ARRAY(SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (spent)))
      ORDER BY x.lim FOR NO KEY UPDATE);
    t_now := dibs.now_us(); -- rates and limits may have been waited for
    IF p_not_after <> 0 AND t_now > p_not_after THEN
      task := 0; token := t_now; due := 0; attempts := 1;
      RETURN NEXT;
      RETURN;
    END IF;
    PERFORM dibs.queue_settle_noted(ARRAY(SELECT DISTINCT d.lim FROM dibs.queue_notes d WHERE d.ns = p_ns AND d.lim = ANY (lims)));
  END IF;

  FOREACH this IN ARRAY p_queues LOOP
    EXIT WHEN need <= 0;
    banned := NULL;
    IF pauses THEN
      SELECT b.closed, b.kinds INTO closed, banned FROM dibs.queue_banned(p_ns, this, t_now) b;
      CONTINUE WHEN closed;
    END IF;
    SELECT t.due INTO next FROM dibs.tasks t WHERE t.queue = this AND t.state IN (0, 6) ORDER BY t.due LIMIT 1;
    IF next <= t_now THEN
      IF dibs.queue_make_due(this, t_now, bound) = bound THEN
        flags := flags | 4;
      END IF;
      SELECT t.due INTO next FROM dibs.tasks t WHERE t.queue = this AND t.state IN (0, 6) AND t.due > t_now ORDER BY t.due LIMIT 1;
    END IF;
    IF next IS NOT NULL AND (soonest = 0 OR next < soonest) THEN
      soonest := next;
    END IF;
    SELECT array_agg(o.kind), array_agg(o.rank), array_agg(o.low), array_agg(o.rising), array_agg(o.most) INTO kinds, ranks, lows, rising, most
    FROM dibs.queue_open(this, p_kinds, banned, rated, allowed, 1000000) o;
    CONTINUE WHEN kinds IS NULL;
    had := need;
    given := 0;
    ahead := NULL;

    -- Tasks with a limit. The nominees name their limits; what is given is the first of each one's sub-queue.
    IF limited THEN
      spent := dibs.queue_nominees(this, kinds, wide);
    END IF;
    IF limited AND spent <> '{}' THEN
      ahead := dibs.queue_heads(this, kinds, ranks, lows, most, need);
      suspect_key := NULL;
      IF NOT no_suspect THEN
        suspect_key := dibs.queue_suspect(this, kinds, p_crashers);
        ahead := ahead || suspect_key;
      END IF;
      IF cardinality(spent) = wide THEN
        flags := flags | 4;
      END IF;
      -- Limits of nominees that have come since then are not waited for.
      SELECT count(DISTINCT t.lim) INTO n FROM dibs.tasks t WHERE t.id = ANY (spent);
      mine := ARRAY(SELECT x.lim FROM dibs.queue_limits x
        WHERE x.lim = ANY (ARRAY(SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (spent))) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(mine) < n THEN
        flags := flags | 4;
      END IF;
      lims := coalesce(lims, '{}') || mine;
      t_now := dibs.now_us();
      FOR c IN SELECT t.* FROM dibs.tasks t WHERE t.id = ANY (spent) AND t.state::int = 3 AND t.lim = ANY (mine) ORDER BY t.sort_key LOOP
        EXIT WHEN need <= 0;
        IF ends >= bound OR given >= 200 THEN
          flags := flags | 4; -- the rest is the next step's
          IF given >= 200 THEN
            flags := flags | 16;
            filled := true;
          END IF;
          EXIT;
        END IF;
        SELECT * INTO l FROM dibs.queue_limits x WHERE x.lim = c.lim;
        IF c.slots <> l.slots AND c.id > l.declared THEN
          PERFORM dibs.queue_resize(c.lim, c.slots, c.id, '');
          l.slots := c.slots;
          touched := touched || c.lim;
        END IF;
        IF l.running < l.slots THEN
          IF c.contention IN (1, 2) THEN
            SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = c.id AND t.state::int = 3 FOR NO KEY UPDATE SKIP LOCKED;
          ELSE
            SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = ANY (ARRAY[
              (SELECT x.id FROM dibs.tasks x WHERE x.state = 3 AND x.lim = c.lim AND x.queue = c.queue AND x.kind = c.kind
                 AND (x.contention IS NULL OR x.contention = 3) ORDER BY x.sort_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED),
              (SELECT x.id FROM dibs.tasks x WHERE x.state = 4 AND x.lim = c.lim AND x.queue = c.queue AND x.kind = c.kind
                 AND (x.expires IS NULL OR x.expires > t_now) ORDER BY x.sort_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)])
            ORDER BY t.sort_key LIMIT 1;
          END IF;
          CONTINUE WHEN pick IS NULL;
          SELECT * INTO c FROM dibs.tasks t WHERE t.id = pick;
          IF c.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'expired', t_now);
            touched := touched || c.lim;
            ends := ends + 5; -- one by one costs more than many at once
            flags := flags | 4;
            CONTINUE;
          END IF;
          -- Tasks without a limit that stand before it come first.
          CONTINUE WHEN given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.sort_key) >= had;
          CONTINUE WHEN c.suspect AND (no_suspect OR suspect_key < c.sort_key OR c.crashes > 0 AND NOT p_crashers);
          sated := p_bytes > 0 AND used > 0 AND used + octet_length(c.args) > p_bytes;
          EXIT WHEN sated;
          used := used + octet_length(c.args);
          IF rated IS NOT NULL AND c.kind = ANY (rated) THEN
            CONTINUE WHEN allowed[array_position(rated, c.kind)] <= 0;
            allowed[array_position(rated, c.kind)] := allowed[array_position(rated, c.kind)] - 1;
            PERFORM dibs.queue_take(p_ns, c.kind, 1, t_now);
          END IF;
          l.token := greatest(l.token + 1, c.token + 1, t_now);
          UPDATE dibs.queue_limits x SET running = running + 1, token = l.token WHERE x.lim = c.lim;
          RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = l.token, worker = me, fetched = t_now, begun = false, stop = NULL
            WHERE t.id = pick
            RETURNING t.id, t.token, t.sort_key, t.queue, t.kind, t.due, t.enqueued, t.expires,
              t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.options;
          IF c.suspect THEN
            no_suspect := true;
            ahead := array_remove(ahead, suspect_key);
          END IF;
          touched := touched || c.lim;
          need := need - 1;
          given := given + 1;
        ELSIF c.contention IN (1, 2) THEN
          CONTINUE WHEN given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.sort_key) >= had;
          CONTINUE WHEN c.suspect AND (no_suspect OR suspect_key < c.sort_key OR c.crashes > 0 AND NOT p_crashers); -- nothing is decided about it yet
          IF c.contention = 2 THEN
            pick := dibs.queue_newest(c.lim, this, kinds);
            IF pick > c.id THEN
              SELECT * INTO c FROM dibs.tasks t WHERE t.id = pick;
            END IF;
          END IF;
          SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = c.id AND t.state::int = 3 FOR NO KEY UPDATE SKIP LOCKED;
          CONTINUE WHEN pick IS NULL;
          touched := touched || c.lim;
          IF c.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'expired', t_now);
            ends := ends + 5;
          ELSIF c.contention = 1 THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'overlap', t_now);
            ends := ends + 5;
          ELSE
            UPDATE dibs.tasks t SET stop = 'replaced' WHERE t.id = ANY (ARRAY(
              SELECT x.id FROM dibs.tasks x WHERE x.state = 5 AND x.lim = c.lim AND x.contention IN (2, 3) AND x.stop IS NULL
              LIMIT bound FOR NO KEY UPDATE SKIP LOCKED));
            spent := ARRAY(
              SELECT x.id FROM dibs.tasks x WHERE x.contention IN (2, 3) AND x.state IN (3, 4) AND x.lim = c.lim AND x.id < pick
              ORDER BY x.id LIMIT greatest(bound - ends, 1) FOR UPDATE SKIP LOCKED);
            PERFORM dibs.queue_discard(spent, 'superseded', t_now);
            ends := ends + 5 + cardinality(spent);
            -- As long as there are any, it stays nominated and asks again: another transaction may have them and be
            -- rolled back, or they are too many for one step.
            UPDATE dibs.tasks t SET state = 4, contention = 3 WHERE t.id = pick
              AND NOT EXISTS (SELECT FROM dibs.tasks x WHERE x.state = 5 AND x.lim = c.lim AND x.contention IN (2, 3) AND x.stop IS NULL)
              AND NOT EXISTS (SELECT FROM dibs.tasks x WHERE x.contention IN (2, 3) AND x.state IN (3, 4) AND x.lim = c.lim AND x.id < pick);
          END IF;
        ELSE
          touched := touched || c.lim; -- it is to step back
          ends := ends + 5;
        END IF;
      END LOOP;
      PERFORM dibs.queue_settle(v) FROM (SELECT DISTINCT unnest(touched)) q(v);
      touched := NULL;
      EXIT WHEN filled OR sated;
    END IF;
    IF rated IS NOT NULL AND need < had THEN -- of rated kinds, something may have been given
      most := ARRAY(SELECT coalesce(allowed[array_position(rated, v.k)], v.m) FROM unnest(kinds, most) WITH ORDINALITY v(k, m, i) ORDER BY v.i);
    END IF;

    -- One suspect at most.
    IF NOT no_suspect AND need > 0 THEN
      suspect_key := dibs.queue_suspect(this, CASE WHEN rated IS NULL THEN kinds ELSE ARRAY(SELECT k FROM unnest(kinds, most) v(k, m) WHERE m > 0) END, p_crashers);
      IF suspect_key IS NOT NULL THEN
        SELECT t.ctid, t.sort_key, t.id, t.expires, t.kind, octet_length(t.args) AS size INTO c FROM dibs.tasks t WHERE t.id = suspect_key & ((1::bigint << 53) - 1);
        IF ahead IS NULL THEN
          ahead := dibs.queue_heads(this, kinds, ranks, lows, most, need);
        END IF;
        IF c.expires <= t_now THEN
          PERFORM dibs.queue_discard(ARRAY[c.id], 'expired', t_now);
          flags := flags | 4;
        ELSIF p_bytes > 0 AND used > 0 AND used + c.size > p_bytes THEN
          sated := true;
        ELSIF given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.sort_key) < had THEN
          used := used + c.size;
          IF rated IS NOT NULL AND c.kind = ANY (rated) THEN
            allowed[array_position(rated, c.kind)] := allowed[array_position(rated, c.kind)] - 1;
            PERFORM dibs.queue_take(p_ns, c.kind, 1, t_now);
          END IF;
          RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = greatest(t.token + 1, t_now), worker = me, fetched = t_now, begun = false, stop = NULL
            WHERE t.id = c.id
            RETURNING t.id, t.token, t.sort_key, t.queue, t.kind, t.due, t.enqueued, t.expires,
              t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.options;
          no_suspect := true;
          need := need - 1;
        END IF;
      END IF;
    END IF;
    IF rated IS NOT NULL AND need < had THEN -- of rated kinds, something may have been given
      most := ARRAY(SELECT coalesce(allowed[array_position(rated, v.k)], v.m) FROM unnest(kinds, most) WITH ORDINALITY v(k, m, i) ORDER BY v.i);
    END IF;

    -- All others.
    reach := need;
    FOR round IN 1 .. 100 LOOP
      EXIT WHEN need <= 0 OR sated;
      IF cardinality(kinds) = 1 THEN
        picked := ARRAY(
          SELECT t.ctid FROM dibs.tasks t WHERE t.queue = this AND t.kind = kinds[1] AND t.state = 1
            AND t.sort_key >= lows[1] AND t.sort_key < (ranks[1] + 1)::bigint << 53
          ORDER BY t.sort_key LIMIT least(need, most[1]) FOR NO KEY UPDATE SKIP LOCKED);
      ELSE
        -- How far the heads of all bands reach is looked up before any is locked, so that no more tasks are locked
        -- than given.
        heads := dibs.queue_heads(this, kinds, ranks, lows, most, reach);
        EXIT WHEN heads = '{}';
        picked := ARRAY(
          SELECT w.at FROM (
            SELECT x.at, x.sort_key, l.most, row_number() OVER (PARTITION BY l.kind ORDER BY x.sort_key) AS n
            FROM unnest(kinds, ranks, lows, most) l(kind, rank, low, most),
              LATERAL (SELECT t.ctid AS at, t.sort_key FROM dibs.tasks t WHERE t.queue = this AND t.kind = l.kind AND t.state = 1
                AND t.sort_key >= l.low AND t.sort_key < (l.rank + 1)::bigint << 53 AND t.sort_key <= heads[cardinality(heads)]
                ORDER BY t.sort_key LIMIT least(need, l.most) FOR NO KEY UPDATE SKIP LOCKED) x
          ) w WHERE w.n <= w.most ORDER BY w.sort_key LIMIT need);
      END IF;
      IF p_bytes > 0 AND picked <> '{}' THEN
        -- The first of them that fit together.
        n := cardinality(picked);
        SELECT coalesce(array_agg(w.at ORDER BY w.i), '{}'), coalesce(max(w.total), used) INTO picked, used FROM (
          SELECT v.at, v.i, used + sum((SELECT octet_length(t.args) FROM dibs.tasks t WHERE t.ctid = v.at)) OVER (ORDER BY v.i) AS total
          FROM unnest(picked) WITH ORDINALITY v(at, i)) w
        WHERE w.total <= p_bytes OR used = 0 AND w.i = 1;
        sated := cardinality(picked) < n;
      END IF;
      IF rated IS NOT NULL AND picked <> '{}' THEN
        FOR i IN 1 .. cardinality(rated) LOOP
          SELECT count(*) INTO n FROM dibs.tasks t WHERE t.ctid = ANY (picked) AND t.kind = rated[i];
          CONTINUE WHEN n = 0;
          allowed[i] := allowed[i] - n;
          PERFORM dibs.queue_take(p_ns, rated[i], n, t_now);
        END LOOP;
        most := ARRAY(SELECT coalesce(allowed[array_position(rated, v.k)], v.m) FROM unnest(kinds, most) WITH ORDINALITY v(k, m, i) ORDER BY v.i);
      END IF;
      RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = greatest(t.token + 1, t_now), worker = me, fetched = t_now, begun = false, stop = NULL
        WHERE t.ctid = ANY (picked) AND (t.expires IS NULL OR t.expires > t_now)
        RETURNING t.id, t.token, t.sort_key, t.queue, t.kind, t.due, t.enqueued, t.expires,
          t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.options;
      GET DIAGNOSTICS n = ROW_COUNT;
      need := need - n;
      EXIT WHEN sated;
      IF n < cardinality(picked) THEN
        spent := ARRAY(SELECT t.id FROM dibs.tasks t WHERE t.ctid = ANY (picked) AND t.expires <= t_now);
        PERFORM dibs.queue_discard(spent, 'expired', t_now);
        ends := ends + cardinality(spent);
      ELSIF cardinality(kinds) = 1 OR cardinality(heads) < reach AND n > 0 THEN
        EXIT;
      ELSE
        -- Other fetches have what stands up to there.
        lows := ARRAY(SELECT greatest(v, heads[cardinality(heads)] + 1) FROM unnest(lows) v);
        reach := least(2 * reach, bound);
      END IF;
      IF round = 100 OR ends >= bound THEN
        flags := flags | 4;
        EXIT;
      END IF;
    END LOOP;

    -- Floors are raised now and then, of one band at a time.
    IF true = ANY (rising) OR random() < 0.2 THEN
      SELECT last_value INTO tip FROM dibs.task_ids;
      SELECT o.k, o.r INTO c FROM unnest(kinds, ranks, lows, rising) o(k, r, v, up)
      WHERE o.up OR (o.r::bigint << 53 | tip) - o.v >= gap ORDER BY o.up DESC, random() LIMIT 1;
      IF FOUND THEN
        PERFORM dibs.queue_raise(this, c.k, c.r, gap);
      END IF;
    END IF;
    EXIT WHEN sated;
  END LOOP;
  IF sated THEN
    flags := flags | 32;
  END IF;

  IF need < p_most AND coalesce(lims, '{}') = '{}' THEN
    -- A claim that a crash of the server loses only lets another worker run the task: the first one's token is
    -- refused then. A slot is never given on such terms (Q4).
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  IF (SELECT count(*) FROM dibs.queue_watched w WHERE w.queue = ANY (p_queues) AND w.watched > t_now + 30000000) = cardinality(p_queues) THEN
    flags := flags | 8;
  END IF;
  task := 0; token := dibs.now_us(); due := soonest; attempts := flags;
  RETURN NEXT;
END $$;

-- Writes that work begins, before it does (Q4), and returns the ids of the tasks that the worker really has: running,
-- of its number, under the given token (promise 19). A key that is held until the start is let go of here (Q1). Tasks
-- are locked in the order of their ids.
CREATE FUNCTION dibs.queue_start(p_ns text, p_key bytea, p_owner text, p_token bigint, p_ids bigint[], p_tokens bigint[])
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  me int := dibs.queue_worker(p_ns, p_key, p_owner, p_token);
BEGIN
  PERFORM FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.token = ANY (p_tokens) AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
    ORDER BY x.id FOR NO KEY UPDATE;
  RETURN QUERY UPDATE dibs.tasks t SET begun = true, held = t.held AND t.hold <> -1
    FROM unnest(p_ids, p_tokens) q(id, token)
    WHERE t.id BETWEEN q.id AND q.id AND t.token = q.token AND t.state::int = 5 AND t.worker IS NOT DISTINCT FROM me AND me IS NOT NULL
    RETURNING t.id;
END $$;

-- Deletes, of each task that has more attempts than are kept, the one after the first 10 (driver.MostAttempts).
CREATE FUNCTION dibs.queue_trim(ids bigint[]) RETURNS void LANGUAGE sql VOLATILE AS $$
  DELETE FROM dibs.task_attempts a USING unnest(ids) q(id)
  WHERE a.task = q.id
    AND a.token = (SELECT x.token FROM dibs.task_attempts x WHERE x.task = q.id ORDER BY x.token OFFSET 10 LIMIT 1)
    AND EXISTS (SELECT FROM dibs.task_attempts x WHERE x.task = q.id ORDER BY x.token OFFSET 99 LIMIT 1);
$$;

-- Ends runs (promises 17, 19 and 20). Returns the ids of the tasks that this call ended, or that an earlier call
-- under the same token ended, since the answer to that may have been lost. p_verdicts null: all succeeded. Else: 1
-- succeeded, 2 retry, 3 fail, 4 cancel, 5 drop, 6 snooze, 7 return.
--
-- Each end is fenced: the task must run, under this token, by this worker, whose lease is live. Limits are locked
-- first, in order; then tasks, in order; then the clock is read. Slots are given back and the next tasks promoted in
-- the same transaction (Q5). In a transaction of a caller's (p_own) no limit is locked: freed slots become notes in
-- queue_notes.
--
-- The call fails after 100 ms if another transaction has one of the tasks, so that nobody waits for the limits of the
-- others for long. The caller then asks again with p_skip: such tasks are left as they are, and returned as negative
-- ids.
CREATE FUNCTION dibs.queue_finish(p_ns text, p_own bool, p_key bytea, p_owner text, p_token bigint, p_ids bigint[], p_tokens bigint[],
  p_verdicts smallint[], p_delays bigint[], p_reasons text[], p_outcomes text[], p_started bigint[], p_ended bigint[], p_errors text[],
  p_skip bool)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  me    int := dibs.queue_worker(p_ns, p_key, p_owner, p_token);
  t_now bigint;
  lims  uuid[];
  freed uuid[];
  done  bigint[] := '{}';
  busy  bigint[];
  t     record;
  n     int;
BEGIN
  IF NOT p_own AND NOT p_skip THEN
    PERFORM set_config('lock_timeout', '100ms', true);
  END IF;
  IF me IS NOT NULL THEN
    IF EXISTS (SELECT FROM dibs.queue_limits x WHERE x.ns = p_ns) THEN
      lims := ARRAY(SELECT DISTINCT x.lim FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.lim IS NOT NULL ORDER BY x.lim);
      IF NOT p_own THEN
        PERFORM FROM dibs.queue_limits x WHERE x.lim = ANY (lims) ORDER BY x.lim FOR NO KEY UPDATE;
      END IF;
    END IF;
    IF p_skip THEN
      done := ARRAY(SELECT x.id FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.token = ANY (p_tokens) AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
        ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED);
      busy := ARRAY(SELECT x.id FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND NOT x.id = ANY (done) AND x.token = ANY (p_tokens) AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me);
      done := '{}';
      IF busy <> '{}' THEN
        RETURN QUERY SELECT -v FROM unnest(busy) v;
        SELECT coalesce(array_agg(q.id), '{}'), array_agg(q.token), array_agg(q.verdict), array_agg(q.delay), array_agg(q.why),
          array_agg(q.outcome), array_agg(q.began), array_agg(q.stopped), array_agg(q.error)
        INTO p_ids, p_tokens, p_verdicts, p_delays, p_reasons, p_outcomes, p_started, p_ended, p_errors
        FROM unnest(p_ids, p_tokens, p_verdicts, p_delays, p_reasons, p_outcomes, p_started, p_ended, p_errors)
          q(id, token, verdict, delay, why, outcome, began, stopped, error)
        WHERE NOT q.id = ANY (busy);
      END IF;
    ELSIF p_verdicts IS NOT NULL OR lims <> '{}' THEN
      -- More than one statement below touches them. All are locked first, so that they are locked in order. One that
      -- is this run's no longer is not waited for: whoever has it may be waiting for this transaction, if it is a
      -- caller's.
      PERFORM FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.token = ANY (p_tokens) AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
        ORDER BY x.id FOR NO KEY UPDATE;
    END IF;
    t_now := dibs.now_us();
    IF lims <> '{}' THEN
      freed := ARRAY(SELECT x.lim FROM unnest(p_ids, p_tokens) q(id, token) JOIN dibs.tasks x ON x.id BETWEEN q.id AND q.id AND x.token = q.token
        WHERE x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me AND x.lim IS NOT NULL);
    END IF;

    -- Those that succeeded.
    WITH gone AS (
      DELETE FROM dibs.tasks x USING unnest(p_ids, p_tokens, p_verdicts, p_reasons) q(id, token, verdict, reason)
      WHERE x.id BETWEEN q.id AND q.id AND x.token = q.token AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
        AND coalesce(q.verdict, 1) = 1 AND NOT (x.held AND x.hold > 0)
      RETURNING x.*, q.reason AS why
    ), kept AS (
      INSERT INTO dibs.tasks_ended
      SELECT id, sort_key, queue, kind, enqueued, due, token, fetched, t_now, expires, hold, uniq, lim, slots, worker,
             attempts + 1, granted, crashes, snoozes, 10, contention, false, suspect, begun, args, options, NULL, why
      FROM gone
      RETURNING id
    )
    SELECT array_agg(k.id) INTO done FROM kept k;
    done := coalesce(done, '{}');

    -- The others, and those whose window begins.
    IF cardinality(done) < cardinality(p_ids) THEN
      PERFORM FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.token = ANY (p_tokens) AND x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
        ORDER BY x.id FOR NO KEY UPDATE; -- few are not locked yet
      FOR t IN
        SELECT x.*, coalesce(q.verdict, 1) AS verdict, q.delay, q.why, q.outcome, q.began, q.stopped, q.error
        FROM unnest(p_ids, p_tokens, p_verdicts, p_delays, p_reasons, p_outcomes, p_started, p_ended, p_errors)
          q(id, token, verdict, delay, why, outcome, began, stopped, error)
        JOIN dibs.tasks x ON x.id BETWEEN q.id AND q.id AND x.token = q.token
        WHERE x.state::int = 5 AND x.worker IS NOT DISTINCT FROM me
      LOOP
        done := done || t.id;
        IF t.verdict = 1 OR t.verdict < 6 AND t.outcome <> '' THEN
          t.attempts := t.attempts + 1;
        END IF;
        IF t.verdict > 1 AND t.outcome <> '' THEN
          INSERT INTO dibs.task_attempts (task, token, worker, n, outcome, started, ended, error)
          VALUES (t.id, t.token, me, t.attempts + CASE WHEN t.verdict < 6 THEN 0 ELSE 1 END, t.outcome, t.began, t.stopped, t.error)
          ON CONFLICT DO NOTHING;
          PERFORM dibs.queue_trim(ARRAY[t.id]);
        END IF;
        IF t.verdict IN (2, 6, 7) AND t.stop IS NOT NULL THEN -- it was asked to stop, and is not tried again
          t.verdict := 4;
          t.why := t.stop;
          PERFORM dibs.queue_tally(t.queue, t.kind, 'canceled', 1);
        END IF;
        CASE
          WHEN t.verdict = 1 THEN
            UPDATE dibs.tasks x SET state = 10, attempts = t.attempts, ended = t_now, reason = t.why, stop = NULL
            WHERE x.id = t.id;
          WHEN t.verdict IN (2, 6) THEN
            UPDATE dibs.tasks x SET state = 6, attempts = t.attempts, due = t_now + t.delay,
              snoozes = x.snoozes + CASE t.verdict WHEN 2 THEN 0 ELSE 1 END, stop = NULL, contention = CASE x.contention WHEN 3 THEN 2 ELSE x.contention END
            WHERE x.id = t.id;
          WHEN t.verdict = 7 THEN
            UPDATE dibs.tasks x SET state = CASE WHEN x.lim IS NOT NULL THEN 3 WHEN x.suspect THEN 2 ELSE 1 END, stop = NULL, contention = CASE x.contention WHEN 3 THEN 2 ELSE x.contention END
            WHERE x.id = t.id;
            PERFORM dibs.queue_put_back(ARRAY[t.id]);
            PERFORM dibs.queue_notify(t.queue, p_own);
          ELSE
            UPDATE dibs.tasks x SET attempts = t.attempts WHERE x.id = t.id;
            PERFORM dibs.queue_end(ARRAY[t.id], CASE t.verdict WHEN 3 THEN 11 WHEN 4 THEN 13 ELSE 12 END::smallint, t.why, t_now);
        END CASE;
      END LOOP;
    END IF;

    IF freed <> '{}' AND p_own THEN
      INSERT INTO dibs.queue_notes SELECT p_ns, v, count(*) FROM unnest(freed) v GROUP BY v;
    ELSIF freed <> '{}' THEN
      FOR t IN SELECT v AS lim, count(*) AS n FROM unnest(freed) v GROUP BY v LOOP
        UPDATE dibs.queue_limits x SET running = greatest(x.running - t.n, 0) WHERE x.lim = t.lim;
        PERFORM dibs.queue_settle(t.lim);
      END LOOP;
    END IF;
  END IF;

  RETURN QUERY SELECT unnest(done);
  IF cardinality(done) < cardinality(p_ids) THEN
    -- The answer to an earlier call may have been lost.
    RETURN QUERY
      SELECT q.id FROM unnest(p_ids, p_tokens) q(id, token)
      WHERE NOT q.id = ANY (done) AND (
        EXISTS (SELECT FROM dibs.tasks x JOIN dibs.queue_workers w ON w.id = x.worker
          WHERE x.id = q.id AND x.token = q.token AND x.state::int <> 5 AND w.key = p_key AND w.owner = p_owner AND w.token = p_token)
        OR EXISTS (SELECT FROM dibs.tasks_ended x JOIN dibs.queue_workers w ON w.id = x.worker
          WHERE x.id = q.id AND x.token = q.token AND w.key = p_key AND w.owner = p_owner AND w.token = p_token)
        OR EXISTS (SELECT FROM dibs.task_attempts x JOIN dibs.queue_workers w ON w.id = x.worker
          WHERE x.task = q.id AND x.token = q.token AND x.outcome <> 'crashed' AND w.key = p_key AND w.owner = p_owner AND w.token = p_token));
  END IF;
END $$;

-- Workers that are gone.

-- Takes tasks from a worker that is gone, p_most at most (Q4). Returns how many go on, and how many ended as crashed.
-- The death counts as a crash of the task only if the task was suspect already and its start was written; else the
-- task only becomes suspect. A task that was asked to stop ends canceled. The token grows, so a late end by the dead
-- worker is refused (promise 19).
--
-- Limits are locked first, then tasks, SKIP LOCKED. Freed slots promote in the same transaction (Q5).
CREATE FUNCTION dibs.queue_rescue(p_ns text, p_worker int, p_most int, OUT rescued int, OUT crashed int) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ids   bigint[] := ARRAY(SELECT id FROM dibs.tasks WHERE worker = p_worker AND state = 5 LIMIT p_most);
  over  bigint[];
  asked bigint[];
  s     record;
  t_now bigint;
BEGIN
  PERFORM FROM dibs.queue_limits x WHERE x.lim = ANY (ARRAY(SELECT DISTINCT lim FROM dibs.tasks WHERE id = ANY (ids) AND lim IS NOT NULL))
    ORDER BY x.lim FOR NO KEY UPDATE;
  t_now := dibs.now_us();
  ids := ARRAY(SELECT id FROM dibs.tasks WHERE id = ANY (ids) AND state::int = 5 AND worker IS NOT DISTINCT FROM p_worker ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
  over := ARRAY(SELECT id FROM dibs.tasks t WHERE id = ANY (ids)
    AND t.crashes + CASE WHEN t.suspect AND t.begun THEN 1 ELSE 0 END >= coalesce((SELECT greatest(least((o ->> 'max_crashes')::numeric, 1000000), 0)::int FROM (SELECT dibs.queue_options(t.options)) x(o)
      WHERE jsonb_typeof(o -> 'max_crashes') = 'number'), 3));
  asked := ARRAY(SELECT id FROM dibs.tasks WHERE id = ANY (ids) AND stop IS NOT NULL AND NOT id = ANY (over));
  crashed := cardinality(over);
  rescued := cardinality(ids) - crashed;
  INSERT INTO dibs.task_attempts (task, token, worker, n, outcome, started, ended, error)
  SELECT t.id, t.token, p_worker, t.attempts + 1, 'crashed', t.fetched, t_now, '' FROM dibs.tasks t WHERE t.id = ANY (ids) AND t.suspect AND t.begun
  ON CONFLICT DO NOTHING;
  PERFORM dibs.queue_trim(ids);
  FOR s IN
    SELECT t.queue, t.kind, CASE WHEN t.id = ANY (over) THEN 'crashed' WHEN t.id = ANY (asked) THEN 'canceled' ELSE 'rescued' END AS name, count(*) AS n
    FROM dibs.tasks t WHERE t.id = ANY (ids) GROUP BY 1, 2, 3
  LOOP
    PERFORM dibs.queue_tally(s.queue, s.kind, s.name, s.n);
  END LOOP;
  FOR s IN SELECT t.stop AS why, array_agg(t.id) AS ids FROM dibs.tasks t WHERE t.id = ANY (asked) GROUP BY t.stop LOOP
    UPDATE dibs.tasks SET token = token + 1, suspect = true, begun = false, crashes = crashes + CASE WHEN suspect AND begun THEN 1 ELSE 0 END
    WHERE id = ANY (s.ids);
    PERFORM dibs.queue_end(s.ids, 13::smallint, s.why, t_now);
  END LOOP;
  UPDATE dibs.tasks SET state = CASE WHEN lim IS NULL THEN 2 ELSE 3 END, token = token + 1, suspect = true, begun = false,
    crashes = crashes + CASE WHEN suspect AND begun THEN 1 ELSE 0 END, stop = NULL, contention = CASE contention WHEN 3 THEN 2 ELSE contention END
  WHERE id = ANY (ids) AND NOT id = ANY (asked);
  PERFORM dibs.queue_notify(q.queue, false) FROM (SELECT DISTINCT t.queue FROM dibs.tasks t WHERE t.id = ANY (ids)) q;
  FOR s IN SELECT lim, count(*) AS n FROM (
    SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (ids) UNION ALL SELECT t.lim FROM dibs.tasks_ended t WHERE t.id = ANY (asked)) t
    WHERE lim IS NOT NULL GROUP BY lim
  LOOP
    UPDATE dibs.queue_limits SET running = greatest(running - s.n, 0) WHERE lim = s.lim;
  END LOOP;
  PERFORM dibs.queue_end(over, 14::smallint, NULL, t_now);
  PERFORM dibs.queue_settle(q.lim) FROM (
    SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (ids) UNION SELECT t.lim FROM dibs.tasks_ended t WHERE t.id = ANY (over || asked)) q
    WHERE q.lim IS NOT NULL;
END $$;

-- Forgets a worker that leaves, and rescues p_most of its tasks. Maintenance rescues the rest.
--
-- A fetch may be under way, even one whose client no longer waits for it. What it gives must not go to a worker that
-- nobody looks at any more, so each fetch shares a lock, and the end of a worker takes it alone: queue_leave waits for
-- the fetch, and queue_mark_gone passes the worker over. A leave that has waited for lock_timeout fails and changes
-- nothing; maintenance finds the worker once its lease is over.
CREATE FUNCTION dibs.queue_leave(p_ns text, p_key bytea, p_owner text, p_token bigint, p_most int) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  me int;
BEGIN
  PERFORM pg_advisory_xact_lock(1684628082, hashtext(p_owner));
  UPDATE dibs.queue_workers SET gone = dibs.now_us() WHERE key = p_key AND owner = p_owner AND token = p_token AND ns = p_ns AND gone = 0
  RETURNING id INTO me;
  IF me IS NOT NULL THEN
    PERFORM dibs.queue_rescue(p_ns, me, p_most);
    UPDATE dibs.queue_workers w SET unrescued = true WHERE w.id = me AND EXISTS (SELECT FROM dibs.tasks t WHERE t.worker = me AND t.state = 5);
  END IF;
END $$;

-- Workers that may have tasks and will not end them: they have left, or their lease is not live. 1,000 at most.
CREATE FUNCTION dibs.queue_dead(p_ns text) RETURNS SETOF int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN QUERY
    SELECT w.id FROM dibs.queue_workers w WHERE w.ns = p_ns AND w.unrescued
    UNION
    SELECT w.id FROM dibs.queue_workers w WHERE w.ns = p_ns AND w.gone = 0
      AND NOT EXISTS (SELECT FROM dibs.leases l WHERE l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token AND l.expires > dibs.now_us())
    LIMIT dibs.queue_bound();
END $$;

-- Marks those of some dead workers that have no tasks left as gone. Each takes a lock of the server's table of locks,
-- so the caller names 100 at most. A worker whose lease is live again is left alone, and one that has a fetch under way
-- (see queue_leave) is left to the next round.
CREATE FUNCTION dibs.queue_mark_gone(p_workers int[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  c record;
BEGIN
  FOR c IN SELECT w.id, w.owner FROM dibs.queue_workers w
    WHERE w.id = ANY (p_workers) AND NOT EXISTS (SELECT FROM dibs.tasks t WHERE t.worker = w.id AND t.state = 5)
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(1684628082, hashtext(c.owner));
    UPDATE dibs.queue_workers w SET gone = CASE WHEN w.gone = 0 THEN dibs.now_us() ELSE w.gone END, unrescued = false
    WHERE w.id = c.id AND NOT EXISTS (SELECT FROM dibs.tasks t WHERE t.worker = w.id AND t.state = 5)
      AND (w.gone <> 0 OR NOT EXISTS (SELECT FROM dibs.leases l WHERE l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token AND l.expires > dibs.now_us()));
  END LOOP;
END $$;

-- Expiry and retention.

-- Discards waiting tasks of some queues whose expires_at has passed, p_most at most (Q6). Limits are locked before
-- tasks; a task that others have is passed over, and is judged again under its lock. Returns how many.
CREATE FUNCTION dibs.queue_expire(p_ns text, p_queues bigint[], p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  t_now bigint := dibs.now_us();
  ids   bigint[];
  lims  uuid[];
BEGIN
  ids := ARRAY(
    SELECT t.id FROM unnest(p_queues) q(id),
      LATERAL (SELECT x.id FROM dibs.tasks x WHERE x.queue = q.id AND x.expires <= t_now AND x.state IN (0, 1, 2, 3, 4, 6)
        ORDER BY x.expires LIMIT p_most) t
    LIMIT p_most);
  IF ids = '{}' THEN
    RETURN 0;
  END IF;
  lims := ARRAY(SELECT DISTINCT lim FROM dibs.tasks WHERE id = ANY (ids) AND lim IS NOT NULL);
  PERFORM dibs.queue_add_limits(p_ns, ids);
  PERFORM FROM dibs.queue_limits WHERE lim = ANY (lims) ORDER BY lim FOR NO KEY UPDATE;
  ids := ARRAY(SELECT id FROM dibs.tasks WHERE id = ANY (ids) AND state::int <> 5 AND expires <= t_now ORDER BY id FOR UPDATE SKIP LOCKED);
  PERFORM dibs.queue_discard(ids, 'expired', t_now);
  PERFORM dibs.queue_settle(v) FROM unnest(lims) v;
  RETURN cardinality(ids);
END $$;

-- Deletes tasks of one final state and of some queues that ended before an instant, p_most at most, with their
-- attempts. A task whose window is open is not in tasks_ended, so retention never ends a window (Q1). The branches
-- differ in which partial index serves them.
CREATE FUNCTION dibs.queue_prune(p_queues bigint[], p_state smallint, p_before bigint, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  old  tid[];
  ids  bigint[];
BEGIN
  IF p_state = 10 THEN
    old := ARRAY(SELECT t.ctid FROM unnest(p_queues) q(id),
      LATERAL (SELECT x.ctid FROM dibs.tasks_ended x WHERE x.state = 10 AND x.queue = q.id AND x.ended < p_before
        ORDER BY x.ended LIMIT p_most FOR UPDATE SKIP LOCKED) t LIMIT p_most);
  ELSE
    old := ARRAY(SELECT t.ctid FROM unnest(p_queues) q(id),
      LATERAL (SELECT x.ctid FROM dibs.tasks_ended x WHERE x.state <> 10 AND x.state = p_state AND x.queue = q.id AND x.ended < p_before
        ORDER BY x.ended LIMIT p_most FOR UPDATE SKIP LOCKED) t LIMIT p_most);
  END IF;
  WITH gone AS (
    DELETE FROM dibs.tasks_ended WHERE ctid = ANY (old)
    RETURNING id
  )
  SELECT array_agg(id) INTO ids FROM gone;
  DELETE FROM dibs.task_attempts WHERE task = ANY (ids);
  RETURN coalesce(cardinality(ids), 0);
END $$;

-- Operators.

-- Carries out an operator's operation on tasks (promise 23, Q7), recorded as one event of kind p_event, whose words
-- end with p_words. p_operation is retry, cancel, delete, discard, promote, move or edit. A task that another
-- transaction has is waited for, for p_wait ms in all. Answers: 1 done, 2 asked (a running task is to stop), 3 not
-- found, 4 wrong state, 5 duplicate, 6 undecided, 7 not in queue p_from, or in none of p_states (null for any); other
-- is the task that has the key.
--
-- Limits are locked first, then the tasks one by one in order, then each is decided by itself: an error of one undoes
-- only its own subtransaction. A retry takes its unique key again in the same statement, or is a duplicate (Q1).
CREATE FUNCTION dibs.queue_operate(p_ns text, p_operation text, p_ids bigint[], p_queue bigint, p_priority int, p_due bigint, p_wait int, p_event text, p_words text,
  p_from bigint, p_states smallint[])
RETURNS TABLE (i int, answer int, other bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  till  bigint := dibs.now_us() + p_wait * 1000::bigint;
  t_now bigint;
  lims  uuid[];
  this  bigint;
  t     dibs.tasks;
  h     dibs.tasks;
  old   bool;
  busy  bigint[] := '{}';
  done  bigint[] := '{}';
  patience text := current_setting('lock_timeout');
BEGIN
  lims := ARRAY(SELECT DISTINCT x.lim FROM dibs.all_tasks x WHERE x.id = ANY (p_ids) AND x.lim IS NOT NULL);
  PERFORM dibs.queue_add_limits(p_ns, p_ids);
  PERFORM FROM dibs.queue_limits x WHERE x.lim = ANY (lims) ORDER BY x.lim FOR NO KEY UPDATE;
  FOR this IN SELECT DISTINCT v FROM unnest(p_ids) v ORDER BY v LOOP
    BEGIN
      PERFORM set_config('lock_timeout', greatest((till - dibs.now_us()) / 1000, 1) || 'ms', true);
      PERFORM FROM dibs.tasks x WHERE x.id = this FOR UPDATE;
      IF NOT FOUND THEN
        PERFORM FROM dibs.tasks_ended x WHERE x.id = this FOR UPDATE;
      END IF;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      busy := busy || this;
    END;
  END LOOP;
  -- A transaction that has a key which a retry wants may be waiting for a task that is locked here by now. So that
  -- wait is a short one.
  PERFORM set_config('lock_timeout', '500ms', true);
  FOR i, this IN SELECT n, v FROM unnest(p_ids) WITH ORDINALITY q(v, n) ORDER BY n LOOP
    answer := NULL; other := 0;
    BEGIN
      SELECT x.* INTO t FROM dibs.tasks x WHERE x.id = this;
      old := t.id IS NULL;
      IF old THEN
        SELECT x.* INTO t FROM dibs.tasks_ended x WHERE x.id = this;
      END IF;
      t_now := dibs.now_us();
      IF this = ANY (busy) THEN
        answer := 6;
      ELSIF t.id IS NULL OR NOT EXISTS (SELECT FROM dibs.queue_names n WHERE n.id = t.queue AND n.ns = p_ns) THEN
        answer := 3;
      ELSIF t.queue <> p_from OR t.state <> ALL (p_states) THEN
        answer := 7;
      ELSIF p_operation = 'retry' AND t.state IN (6, 10, 11, 12, 13, 14) THEN
        IF old AND t.uniq IS NOT NULL THEN
          SELECT x.* INTO h FROM dibs.tasks x WHERE x.uniq = t.uniq AND x.held;
          IF h.state = 10 AND h.ended + h.hold <= t_now OR h.state NOT IN (5, 10) AND h.expires <= t_now THEN
            PERFORM FROM dibs.tasks x WHERE x.id = h.id FOR UPDATE NOWAIT;
          END IF;
          IF h.id IS NULL THEN
            NULL;
          ELSIF h.state NOT IN (5, 10) AND h.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[h.id], 'expired', t_now);
            PERFORM dibs.queue_note(p_ns, h.lim);
          ELSIF h.state = 10 AND h.ended + h.hold <= t_now THEN
            PERFORM dibs.queue_free(ARRAY[h.id]);
          ELSE
            answer := 5; other := h.id;
          END IF;
        END IF;
        IF answer IS NULL THEN
          IF old THEN
            DELETE FROM dibs.tasks_ended x WHERE x.id = this;
            t.held := t.uniq IS NOT NULL;
          ELSE
            DELETE FROM dibs.tasks x WHERE x.id = this;
          END IF;
          t.granted := t.attempts; t.crashes := 0; t.snoozes := 0; t.ended := NULL; t.reason := NULL; t.due := t_now; t.contention := CASE t.contention WHEN 3 THEN 2 ELSE t.contention END;
          IF t.expires <= t_now THEN
            t.expires := NULL; -- it was waited for; somebody wants it nevertheless
          END IF;
          t.state := CASE WHEN t.lim IS NOT NULL THEN 3 WHEN t.suspect THEN 2 ELSE 1 END;
          INSERT INTO dibs.tasks SELECT t.*;
          PERFORM dibs.queue_put_back(ARRAY[this]);
          answer := 1;
        END IF;
      ELSIF p_operation = 'cancel' AND t.state = 5 THEN
        UPDATE dibs.tasks x SET stop = 'operator' WHERE x.id = this;
        answer := 2;
      ELSIF p_operation = 'delete' AND t.state >= 10 THEN
        DELETE FROM dibs.tasks x WHERE x.id = this;
        DELETE FROM dibs.tasks_ended x WHERE x.id = this;
        DELETE FROM dibs.task_attempts x WHERE x.task = this;
        answer := 1;
      ELSIF t.state IN (5, 10, 11, 12, 13, 14) OR p_operation NOT IN ('cancel', 'discard', 'promote', 'move', 'edit') THEN
        answer := 4;
      ELSIF p_operation = 'cancel' THEN
        PERFORM dibs.queue_tally(t.queue, t.kind, 'canceled', 1);
        PERFORM dibs.queue_end(ARRAY[this], 13::smallint, 'operator', t_now);
        answer := 1;
      ELSIF p_operation = 'discard' THEN
        PERFORM dibs.queue_discard(ARRAY[this], 'operator', t_now);
        answer := 1;
      ELSE
        IF p_operation = 'promote' THEN
          t.sort_key := (t.sort_key >> 53) % 19 << 53 | this;
          t.due := least(t.due, t_now);
        ELSIF p_operation = 'move' THEN
          t.queue := p_queue;
        ELSE
          IF p_priority IS NOT NULL THEN
            t.sort_key := (CASE WHEN t.sort_key >> 53 < 19 THEN 9 ELSE 28 END - p_priority)::bigint << 53 | this;
          END IF;
          t.due := coalesce(p_due, t.due);
        END IF;
        UPDATE dibs.tasks x SET sort_key = t.sort_key, queue = t.queue, due = t.due,
          state = CASE WHEN t.due > t_now THEN CASE WHEN t.state = 6 THEN 6 ELSE 0 END
                       WHEN t.lim IS NOT NULL THEN 3 WHEN t.suspect THEN 2 ELSE 1 END
        WHERE x.id = this;
        PERFORM dibs.queue_put_back(ARRAY[this]);
        answer := 1;
      END IF;
      IF answer = 1 AND p_operation NOT IN ('cancel', 'discard', 'delete') THEN
        PERFORM dibs.queue_notify(CASE WHEN p_operation = 'move' THEN p_queue ELSE t.queue END, false);
      END IF;
    EXCEPTION
      WHEN lock_not_available THEN
        answer := 6;
      WHEN unique_violation THEN
        answer := 5;
        other := coalesce((SELECT x.id FROM dibs.tasks x WHERE x.uniq = t.uniq AND x.held), 0);
    END;
    IF answer IN (1, 2) THEN
      done := done || this;
    END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('lock_timeout', patience, true);
  PERFORM dibs.queue_settle(x.lim) FROM dibs.queue_limits x WHERE x.lim = ANY (lims);
  IF done <> '{}' THEN
    SELECT array_agg(v ORDER BY n) INTO done FROM unnest(p_ids) WITH ORDINALITY q(v, n) WHERE v = ANY (done);
    PERFORM dibs.queue_event(p_ns, p_event, CASE cardinality(done) WHEN 1 THEN '1 task: ' ELSE cardinality(done) || ' tasks: ' END
      || array_to_string(done[1:20], ' ')
      || CASE WHEN cardinality(done) > 20 THEN ' and ' || cardinality(done) - 20 || ' more' ELSE '' END || p_words);
  END IF;
END $$;

INSERT INTO dibs.migrations (version, oldest) VALUES (1, 1);

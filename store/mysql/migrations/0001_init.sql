-- The tables of dibs, version 1, as dibs v0.1.0 makes them: leases, jobs and ticks with their runs, history, and
-- queues of tasks. This file stays as it is. A later version is a file of its own that only adds to it
-- (CONTRIBUTING.md, "Changing a store's layout").
--
-- Every statement may be run again: DDL commits by itself here, so a migration that was cut short is simply repeated.
--
-- Instants are microseconds since 1970 in UTC, 0 where there is none. Names are bytes and compared as bytes.
--
-- Contents: versions and namespaces; leases; jobs, ticks, runs, history; tasks.

-- One row for each version that was applied. oldest is the oldest version whose programs may still use the tables
-- after this one: they go on beside newer ones while servers are upgraded one by one. A program that knows less
-- refuses them.
CREATE TABLE IF NOT EXISTS dibs_schema (
  version INT NOT NULL PRIMARY KEY,
  oldest  INT NOT NULL
) ENGINE=InnoDB;

-- One row for each namespace: what grants are judged by (L9).
CREATE TABLE IF NOT EXISTS dibs_meta (
  ns           VARBINARY(64)  NOT NULL,
  installation VARBINARY(64)  NOT NULL,
  identity     VARBINARY(512) NOT NULL,
  max_ttl      BIGINT         NOT NULL,
  hold_until   BIGINT         NOT NULL,
  created      BIGINT         NOT NULL,
  -- It grows with each change of identity: a client that has seen a higher one knows that this is an older state of
  -- the data.
  epoch        BIGINT         NOT NULL DEFAULT 0,
  PRIMARY KEY (ns)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A row stays after a release, so that its token survives (L10). There is deliberately no index on expires or renewed:
-- heartbeats change both.
CREATE TABLE IF NOT EXISTS dibs_leases (
  ns          VARBINARY(64)  NOT NULL,
  lease_key   VARBINARY(530) NOT NULL,
  owner       VARBINARY(32)  NOT NULL DEFAULT '',
  token       BIGINT         NOT NULL DEFAULT 0,
  holder      MEDIUMTEXT,
  replaceable TINYINT        NOT NULL DEFAULT 0,
  ttl         BIGINT         NOT NULL DEFAULT 0,
  acquired    BIGINT         NOT NULL DEFAULT 0,
  renewed     BIGINT         NOT NULL DEFAULT 0,
  expires     BIGINT         NOT NULL DEFAULT 0,
  busy_until  BIGINT         NOT NULL DEFAULT 0,
  wanted      MEDIUMTEXT,
  broken      MEDIUMTEXT,
  broken_at   BIGINT         NOT NULL DEFAULT 0,
  PRIMARY KEY (ns, lease_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The registry: one definition of each job (T11). Ticks at or below mark are settled (T4).
CREATE TABLE IF NOT EXISTS dibs_jobs (
  ns         VARBINARY(64)  NOT NULL,
  name       VARBINARY(530) NOT NULL,
  definition MEDIUMTEXT,
  generation BIGINT         NOT NULL DEFAULT 0,
  since      BIGINT         NOT NULL DEFAULT 0,
  mark       BIGINT         NOT NULL DEFAULT 0,
  removed    BIGINT         NOT NULL DEFAULT 0,
  paused_since BIGINT       NOT NULL DEFAULT 0,
  paused_until BIGINT       NOT NULL DEFAULT 0,
  paused_by  TEXT,
  paused_why TEXT,
  paused_resumed TINYINT    NOT NULL DEFAULT 0, -- somebody ended it, at paused_until; else that was set beforehand
  past       MEDIUMTEXT, -- the definitions before this one that left ticks open, as JSON; NULL: there is none
  PRIMARY KEY (ns, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each claimed or settled tick, or for a range of ticks with one outcome: at to through, many of them
-- (T4). The primary key makes the first claim win (promise 8).
--
-- The generated columns are NULL for all rows but those that one step looks for, so that others are not in the way of
-- its index. open_job: ticks that have not ended. owed_app: ticks that may still have to be run, by their application
-- (tick.Tick's Owed), which is a job's name up to the first slash. range_end: ranges by their end, for queries from an
-- instant on.
CREATE TABLE IF NOT EXISTS dibs_ticks (
  ns          VARBINARY(64)  NOT NULL,
  job         VARBINARY(530) NOT NULL,
  at          BIGINT         NOT NULL,
  through     BIGINT         NOT NULL DEFAULT 0,
  many        INT            NOT NULL DEFAULT 0,
  state       VARBINARY(16)  NOT NULL,
  lease_key   VARBINARY(530) NOT NULL DEFAULT '',
  lease_owner VARBINARY(32)  NOT NULL DEFAULT '',
  lease_token BIGINT         NOT NULL DEFAULT 0,
  claimant    MEDIUMTEXT,
  run_id      VARBINARY(64)  NOT NULL DEFAULT '',
  outcome     VARBINARY(16)  NOT NULL DEFAULT '',
  reason      MEDIUMTEXT,
  inferred    TINYINT        NOT NULL DEFAULT 0,
  reruns      INT            NOT NULL DEFAULT 0,
  claimed     BIGINT         NOT NULL DEFAULT 0,
  started     BIGINT         NOT NULL DEFAULT 0,
  ended       BIGINT         NOT NULL DEFAULT 0,
  open_job VARBINARY(530) AS (IF(state = 'closed', NULL, job)) VIRTUAL,
  owed_app VARBINARY(530) AS (IF(state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused')
      OR outcome = 'skipped' AND reason = 'window'), LEFT(job, LOCATE('/', job)), NULL)) VIRTUAL,
  range_end BIGINT AS (NULLIF(through, 0)) VIRTUAL,
  PRIMARY KEY (ns, job, at),
  KEY unfinished (ns, state, at),
  KEY recent (ns, at, job),
  KEY unfinished_by_job (ns, open_job, at),
  KEY owed (ns, owed_app, at, job),
  KEY ranges (ns, range_end, at, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each run. owner and token fence its later writes (T9).
CREATE TABLE IF NOT EXISTS dibs_runs (
  ns       VARBINARY(64)  NOT NULL,
  run_id   VARBINARY(64)  NOT NULL,
  job      VARBINARY(530) NOT NULL DEFAULT '',
  tick     BIGINT         NOT NULL DEFAULT 0,
  owner    VARBINARY(32)  NOT NULL DEFAULT '',
  token    BIGINT         NOT NULL DEFAULT 0,
  host     TEXT,
  pid      BIGINT         NOT NULL DEFAULT 0,
  command  MEDIUMTEXT,
  outcome  VARBINARY(16)  NOT NULL DEFAULT '',
  reason   MEDIUMTEXT,
  inferred TINYINT        NOT NULL DEFAULT 0,
  started  BIGINT         NOT NULL DEFAULT 0,
  ended    BIGINT         NOT NULL DEFAULT 0,
  attempts MEDIUMTEXT,
  cause    TEXT, -- who asked for a run that no schedule did, and why, as JSON
  PRIMARY KEY (ns, run_id),
  KEY recent (ns, started, run_id),
  KEY of_job (ns, job, started, run_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What runs printed.
CREATE TABLE IF NOT EXISTS dibs_outputs (
  ns     VARBINARY(64) NOT NULL,
  run_id VARBINARY(64) NOT NULL,
  at     BIGINT        NOT NULL,
  output MEDIUMBLOB    NOT NULL,
  PRIMARY KEY (ns, run_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happened, for history.
CREATE TABLE IF NOT EXISTS dibs_events (
  ns        VARBINARY(64)  NOT NULL,
  at        BIGINT         NOT NULL,
  id        VARBINARY(64)  NOT NULL,
  kind      VARBINARY(64)  NOT NULL,
  lease_key VARBINARY(530) NOT NULL DEFAULT '',
  job       VARBINARY(530) NOT NULL DEFAULT '',
  tick      BIGINT         NOT NULL DEFAULT 0,
  run_id    VARBINARY(64)  NOT NULL DEFAULT '',
  host      TEXT,
  reason    MEDIUMTEXT,
  PRIMARY KEY (ns, at, id),
  KEY of_job (ns, job, at, id),
  KEY of_run (ns, run_id, at, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The processes that serve and work: what each said of itself (fleet.Process, as JSON), and when it did so last.
CREATE TABLE IF NOT EXISTS dibs_processes (
  ns     VARBINARY(64)    NOT NULL,
  id     VARBINARY(32)    NOT NULL,
  seen   BIGINT           NOT NULL,
  record VARBINARY(8192)  NOT NULL,
  PRIMARY KEY (ns, id),
  KEY recent (ns, seen, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where the last step of pruning ended, among rows that are old and have to stay.
CREATE TABLE IF NOT EXISTS dibs_pruned (
  ns   VARBINARY(64)  NOT NULL,
  kind VARBINARY(16)  NOT NULL,
  at   BIGINT         NOT NULL DEFAULT 0,
  name VARBINARY(530) NOT NULL DEFAULT '',
  PRIMARY KEY (ns, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tasks.
--
-- States: 0 scheduled, 1 available, 2 blocked, 3 running, 4 retryable; 5 succeeded, 6 failed, 7 discarded, 8 canceled,
-- 9 crashed. A sub-queue is one kind in one queue; its number is a hash of both.
--
-- Columns that repeat another one while it matters, and are 0 otherwise, are there for an index that has then only
-- such rows at its upper end: due_at (run_at, while the task waits for it), lapses (expires, while it waits), holder
-- (worker, while it runs), done (state, once it is final).
--
-- One row for each task, living or ended. The unique index one is what makes keys unique (Q1): ukey is NULL for a
-- task that holds none. Nearly every index begins with the columns that one step compares and ends with its order, so
-- no step walks over other rows.
CREATE TABLE IF NOT EXISTS dibs_tasks (
  id        BIGINT         NOT NULL AUTO_INCREMENT,
  ns        VARBINARY(64)  NOT NULL,
  ver       BIGINT         NOT NULL DEFAULT 1, -- grows with every change
  subqueue  BIGINT         NOT NULL,
  queue     VARBINARY(128) NOT NULL,
  kind      VARBINARY(128) NOT NULL,
  state     TINYINT        NOT NULL,
  class     TINYINT        NOT NULL DEFAULT 0, -- 1 suspect, 2 suspect that took a worker down before
  ordinal   SMALLINT       NOT NULL,           -- minus the priority; 100 less at the front
  priority  SMALLINT       NOT NULL,
  run_at    BIGINT         NOT NULL,
  due_at    BIGINT         NOT NULL DEFAULT 0,
  enqueued  BIGINT         NOT NULL,
  expires   BIGINT         NOT NULL DEFAULT 0,
  lapses    BIGINT         NOT NULL DEFAULT 0,
  started   BIGINT         NOT NULL DEFAULT 0,
  ended     BIGINT         NOT NULL DEFAULT 0,
  done      TINYINT        NOT NULL DEFAULT 0,
  attempts  INT            NOT NULL DEFAULT 0,
  granted   INT            NOT NULL DEFAULT 0,
  crashes   INT            NOT NULL DEFAULT 0,
  snoozes   INT            NOT NULL DEFAULT 0,
  begun     TINYINT        NOT NULL DEFAULT 0, -- its start was written under its token
  displaced TINYINT        NOT NULL DEFAULT 0, -- it has asked for its slot, and waits like others
  token     BIGINT         NOT NULL DEFAULT 0,
  worker    BIGINT         NOT NULL DEFAULT 0, -- who has it, or had it last
  holder    BIGINT         NOT NULL DEFAULT 0,
  completed BIGINT         NOT NULL DEFAULT 0, -- the token of its last completion
  ukey      BINARY(16),                        -- while it holds its unique key
  win       BIGINT         NOT NULL DEFAULT 0, -- until when it holds it after it succeeded
  limited   BINARY(16),                        -- the hash of its limit
  line      TINYINT        NOT NULL DEFAULT 0, -- it stands in line for its limit
  reason    TEXT           NOT NULL,
  stop      TEXT           NOT NULL,
  options   MEDIUMBLOB     NOT NULL,         -- of its spec: what the store keeps and never reads, as JSON
  args      MEDIUMBLOB     NOT NULL,
  PRIMARY KEY (id),
  KEY listed (ns, id),
  UNIQUE KEY one (ns, ukey),
  KEY ready (ns, subqueue, state, class, ordinal, id),
  KEY due (ns, subqueue, due_at),
  KEY line (ns, limited, state, line, subqueue, ordinal, id),
  KEY held (ns, holder),
  KEY lapse (ns, lapses),
  KEY win (ns, win),
  KEY old (ns, done, ended)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A sub-queue may have several rows: a transaction that finds none adds one of its own, and so waits for nobody.
CREATE TABLE IF NOT EXISTS dibs_task_subqueues (
  ns    VARBINARY(64)  NOT NULL,
  queue VARBINARY(128) NOT NULL,
  kind  VARBINARY(128) NOT NULL,
  salt  BIGINT         NOT NULL,
  PRIMARY KEY (ns, queue, kind, salt)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dibs_task_workers (
  id        BIGINT         NOT NULL AUTO_INCREMENT,
  ns        VARBINARY(64)  NOT NULL,
  owner     VARBINARY(32)  NOT NULL,
  token     BIGINT         NOT NULL,
  lease_key VARBINARY(530) NOT NULL,
  host      TEXT           NOT NULL,
  pid       BIGINT         NOT NULL DEFAULT 0,
  does      MEDIUMBLOB     NOT NULL, -- queues and kinds, JSON
  slots     INT            NOT NULL DEFAULT 0,
  since     BIGINT         NOT NULL DEFAULT 0,
  ended     BIGINT         NOT NULL DEFAULT 0, -- when it left, or was found dead
  PRIMARY KEY (id),
  UNIQUE KEY one (ns, owner, token, lease_key),
  KEY ended (ns, ended)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The limits (Q5). A step that gives or frees slots locks the row of the limit first. An operator's word on a limit
-- stands above what its tasks declare, until it is taken back: slots is the operator's then.
CREATE TABLE IF NOT EXISTS dibs_task_limits (
  ns        VARBINARY(64)  NOT NULL,
  hash      BINARY(16)     NOT NULL,
  limit_key VARBINARY(530) NOT NULL,
  slots     INT            NOT NULL,
  token     BIGINT         NOT NULL DEFAULT 0, -- the largest that was given under it
  declared  INT            NOT NULL DEFAULT 0, -- what tasks declared last, while an operator's word stands; else 0
  said_by   VARCHAR(1000)  NOT NULL DEFAULT '',
  said      BIGINT         NOT NULL DEFAULT 0, -- when
  PRIMARY KEY (ns, hash),
  KEY said (ns, declared)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Notes that somebody must look at a limit: a transaction of a caller's, which must not lock the limit, took in a
-- task, declared a maximum (slots, else 0) or freed a slot.
CREATE TABLE IF NOT EXISTS dibs_task_wakes (
  ns        VARBINARY(64)  NOT NULL,
  id        BIGINT         NOT NULL AUTO_INCREMENT, -- the oldest is looked at first
  hash      BINARY(16)     NOT NULL,
  limit_key VARBINARY(530) NOT NULL,
  slots     INT            NOT NULL,
  PRIMARY KEY (ns, id),
  KEY id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dibs_task_attempts (
  task    BIGINT     NOT NULL,
  i       BIGINT     NOT NULL AUTO_INCREMENT, -- in the order of their ends
  attempt MEDIUMBLOB NOT NULL,                -- JSON
  PRIMARY KEY (task, i),
  KEY i (i)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dibs_task_pauses (
  ns    VARBINARY(64)  NOT NULL,
  queue VARBINARY(128) NOT NULL,
  kind  VARBINARY(128) NOT NULL,
  since BIGINT         NOT NULL,
  until BIGINT         NOT NULL, -- 0: until somebody resumes
  by_   TEXT           NOT NULL,
  why   TEXT           NOT NULL,
  PRIMARY KEY (ns, queue, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rates as buckets: each task takes each_ out, and the bucket is full again at full. At most so many are taken in any
-- time of length per.
CREATE TABLE IF NOT EXISTS dibs_task_rates (
  ns    VARBINARY(64)  NOT NULL,
  kind  VARBINARY(128) NOT NULL,
  ver   BIGINT         NOT NULL DEFAULT 1,
  each_ BIGINT         NOT NULL, -- ns that one task costs
  burst BIGINT         NOT NULL, -- ns
  full  BIGINT         NOT NULL DEFAULT 0, -- when the bucket is full again, µs
  per   BIGINT         NOT NULL DEFAULT 0, -- ns
  most  INT            NOT NULL DEFAULT 0,
  taken VARCHAR(1000)  NOT NULL DEFAULT '', -- how many were taken when: lifecycle.Taken
  PRIMARY KEY (ns, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Counters by minute.
CREATE TABLE IF NOT EXISTS dibs_task_counts (
  ns     VARBINARY(64)  NOT NULL,
  minute BIGINT         NOT NULL,
  queue  VARBINARY(128) NOT NULL,
  kind   VARBINARY(128) NOT NULL,
  name   VARBINARY(128) NOT NULL,
  salt   BIGINT         NOT NULL, -- other than 0 in a transaction of a caller's, so that nobody waits for it
  n      BIGINT         NOT NULL,
  PRIMARY KEY (ns, minute, queue, kind, name, salt)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO dibs_schema (version, oldest) VALUES (1, 1) ON DUPLICATE KEY UPDATE version = dibs_schema.version;

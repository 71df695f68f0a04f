-- The queue, version 3. Every statement may be run again, and names are bytes.
--
-- States: 0 scheduled, 1 available, 2 blocked, 3 running, 4 retryable; 5 succeeded, 6 failed,
-- 7 discarded, 8 canceled, 9 crashed. A lane is one kind in one queue; its number is a hash of both.
--
-- Columns that repeat another one while it matters, and are 0 otherwise, are there for an index that
-- has then only such rows at its upper end: due_at (run_at, while the task waits for it), lapses
-- (expires, while it waits), holder (worker, while it runs), done (state, once it is final).

-- One row for each task, living or ended. The unique index one is what makes keys unique (Q1): ukey is NULL for a
-- task that holds none. Nearly every index begins with the columns that one step compares and ends with its order, so
-- no step walks over other rows.
CREATE TABLE IF NOT EXISTS dibs_tasks (
  id        BIGINT         NOT NULL AUTO_INCREMENT,
  ns        VARBINARY(64)  NOT NULL,
  ver       BIGINT         NOT NULL DEFAULT 1, -- grows with every change
  lane      BIGINT         NOT NULL,
  queue     VARBINARY(128) NOT NULL,
  kind      VARBINARY(128) NOT NULL,
  state     TINYINT        NOT NULL,
  class     TINYINT        NOT NULL DEFAULT 0, -- 1 suspect, 2 suspect that took a worker down
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
  cold      MEDIUMBLOB     NOT NULL,
  args      MEDIUMBLOB     NOT NULL,
  PRIMARY KEY (id),
  KEY listed (ns, id),
  UNIQUE KEY one (ns, ukey),
  KEY ready (ns, lane, state, class, ordinal, id),
  KEY due (ns, lane, due_at),
  KEY line (ns, limited, state, line, lane, ordinal, id),
  KEY held (ns, holder),
  KEY lapse (ns, lapses),
  KEY win (ns, win),
  KEY old (ns, done, ended)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A lane may have several rows: a transaction that finds none adds one of its own, and so waits for nobody.
CREATE TABLE IF NOT EXISTS dibs_task_lanes (
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

-- The limits (Q5). A step that gives or frees slots locks the row of the limit first.
CREATE TABLE IF NOT EXISTS dibs_task_limits (
  ns        VARBINARY(64)  NOT NULL,
  hash      BINARY(16)     NOT NULL,
  limit_key VARBINARY(530) NOT NULL,
  slots     INT            NOT NULL,
  token     BIGINT         NOT NULL DEFAULT 0, -- the largest that was given under it
  PRIMARY KEY (ns, hash)
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

-- Rates as buckets: each task takes each_ out, and the bucket is full again at full.
CREATE TABLE IF NOT EXISTS dibs_task_rates (
  ns    VARBINARY(64)  NOT NULL,
  kind  VARBINARY(128) NOT NULL,
  ver   BIGINT         NOT NULL DEFAULT 1,
  each_ BIGINT         NOT NULL, -- ns that one task costs
  burst BIGINT         NOT NULL, -- ns
  full  BIGINT         NOT NULL DEFAULT 0, -- when the bucket is full again, µs
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

-- The tables of dibs, version 1. Every statement may be run again: DDL commits by itself here, so
-- a migration that was cut short is simply repeated.
--
-- Instants are microseconds since 1970 in UTC, 0 where there is none. Names are bytes and compared
-- as bytes. There is deliberately no index on expires or renewed: heartbeats change both.

-- One row for each namespace: what grants are judged by (L9).
CREATE TABLE IF NOT EXISTS dibs_meta (
  ns           VARBINARY(64)  NOT NULL,
  installation VARBINARY(64)  NOT NULL,
  identity     VARBINARY(512) NOT NULL,
  max_ttl      BIGINT         NOT NULL,
  hold_until   BIGINT         NOT NULL,
  created      BIGINT         NOT NULL,
  PRIMARY KEY (ns)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A row stays after a release, so that its token survives (L10).
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
  PRIMARY KEY (ns, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each claimed or settled tick, or for a range of ticks with one outcome: at to through, many of them
-- (T4). The primary key makes the first claim win (promise 8).
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
  PRIMARY KEY (ns, job, at),
  KEY unfinished (ns, state, at),
  KEY recent (ns, at, job)
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

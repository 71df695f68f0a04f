-- Schema dibs, version 1: leases, ticks with their runs, jobs, and events.
--
-- Instants are microseconds since the Unix epoch by this server's clock; 0 is "none". Keys and jobs are bytes, so
-- that no collation takes part in comparing them (L13). Empty text is "none". The namespace comes last in the keys:
-- most databases have one namespace, so it would find nothing as the first column.

DO $$
BEGIN
  -- CREATE SCHEMA IF NOT EXISTS would demand the right to create one even where there is one.
  IF to_regnamespace('dibs') IS NULL THEN
    CREATE SCHEMA dibs;
  END IF;
END $$;

CREATE TABLE dibs.migrations (
  version int PRIMARY KEY,
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

-- One row for each namespace: what grants are judged by (L9).
CREATE TABLE dibs.namespaces (
  ns           text COLLATE "C" PRIMARY KEY,
  installation text NOT NULL,
  identity     text NOT NULL,
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
  PRIMARY KEY (name, ns)
) WITH (fillfactor = 70);

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
  PRIMARY KEY (job, at, ns)
) WITH (fillfactor = 80);
CREATE INDEX ticks_unfinished ON dibs.ticks (job, at, ns) WHERE state <> 'closed';
CREATE INDEX ticks_at ON dibs.ticks (at, ns);

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
  PRIMARY KEY (run_id, ns)
) WITH (fillfactor = 80);
CREATE INDEX runs_job ON dibs.runs (job, started, ns);
CREATE INDEX runs_started ON dibs.runs (started, ns);

CREATE TABLE dibs.outputs (
  ns     text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  output bytea NOT NULL,
  PRIMARY KEY (run_id, ns)
);

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
CREATE INDEX events_at ON dibs.events (at, ns);
CREATE INDEX events_run ON dibs.events (run_id, ns) WHERE run_id <> '';

INSERT INTO dibs.migrations (version) VALUES (1);

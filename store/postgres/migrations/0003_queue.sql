-- Schema dibs, version 3: tasks.
--
-- Versions 8 and 9 replace most functions below; read them there. What stands here alone: queue_tell, queue_worker,
-- queue_event, queue_tally, queue_end, queue_discard, queue_meet, queue_owe, queue_insert, queue_free, queue_start.
--
-- Queues and kinds are numbers here: the first eight bytes of a hash of (what, namespace, name). So nobody has to
-- look one up, or to wait for one that another transaction is about to make. queue_names tells the name of a number.
-- Unique keys and limits are sixteen bytes of a hash that contains the namespace as well. So the rows of tasks need
-- no namespace.
--
-- The states: 0 scheduled, 1 available, 2 available and suspect, 3 available with a limit ("nominated"), 4 blocked by
-- its limit, 5 running, 6 retryable; the final ones 10 succeeded, 11 failed, 12 discarded, 13 canceled, 14 crashed.
-- States 2 and 3 have numbers of their own so that the common fetch, of state 1, never meets them. A lane is a queue
-- and a kind, at a limit. In each lane as many tasks are nominated as the limit has free slots, and all others are
-- blocked (Q5).
--
-- Locks. Rows are locked in the order: rates, limits by key, tasks by id. To insert a unique key may mean to wait for
-- a transaction that has touched the task which holds it. So a step that has touched a task locks no limit any more,
-- unless with SKIP LOCKED. Tasks that are merely looked for are taken with SKIP LOCKED and never waited for. A
-- transaction of a caller's holds no lock on a limit: what it changes about a limit it leaves as a note in
-- queue_debts, and the next step that comes by pays it.
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
  place      bigint NOT NULL, -- (9 - priority, and 19 more unless it was moved to the front) << 53 | id
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
  cold       text,
  stop       text,
  reason     text,
  PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.5);
CREATE INDEX tasks_ready ON dibs.tasks (queue, place) WHERE state = 1;
CREATE INDEX tasks_suspect ON dibs.tasks (queue, place) WHERE state = 2;
CREATE INDEX tasks_nominee ON dibs.tasks (queue, place) WHERE state = 3 AND place >= 0; -- as all are: who seeks a limit's has to take the next one
CREATE INDEX tasks_nominee_lane ON dibs.tasks (lim, queue, kind, place) WHERE state = 3 AND lim IS NOT NULL;
CREATE INDEX tasks_blocked ON dibs.tasks (lim, queue, kind, place) WHERE state = 4;
CREATE INDEX tasks_running ON dibs.tasks (worker) WHERE state = 5;
CREATE INDEX tasks_slot ON dibs.tasks (lim) WHERE state = 5 AND lim IS NOT NULL;
CREATE INDEX tasks_due ON dibs.tasks (queue, due) WHERE state IN (0, 6);
CREATE INDEX tasks_expiry ON dibs.tasks (queue, expires) WHERE expires IS NOT NULL AND state IN (0, 1, 2, 3, 4, 6);
CREATE INDEX tasks_window ON dibs.tasks (queue, (ended + hold)) WHERE state = 10;
CREATE INDEX tasks_rival ON dibs.tasks (lim, id) WHERE contention IN (2, 3) AND state IN (3, 4);
CREATE UNIQUE INDEX tasks_unique ON dibs.tasks (uniq) WHERE held;

-- Tasks that ended, out of the way of those that live. A task with an open window stays in dibs.tasks until that is
-- over.
CREATE TABLE dibs.tasks_ended (LIKE dibs.tasks INCLUDING DEFAULTS, PRIMARY KEY (id));
-- What retention looks for, in the order of their end. Most tasks succeed, and are only ever added at the end of this
-- index.
CREATE INDEX tasks_ended_succeeded ON dibs.tasks_ended (queue, ended) WHERE state = 10;
CREATE INDEX tasks_ended_otherwise ON dibs.tasks_ended (queue, state, ended) WHERE state <> 10;

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
CREATE INDEX queue_names_ns ON dibs.queue_names (ns, kind);

-- The limits: one row for each concurrency key (Q5). Its row lock is what serializes fetches, ends and promotions on
-- a key. running is a count, so that no step has to count; queue_repair checks it.
CREATE TABLE dibs.queue_limits (
  lim      uuid PRIMARY KEY,
  ns       text COLLATE "C" NOT NULL,
  key      text NOT NULL,
  slots    int NOT NULL,
  running  int NOT NULL DEFAULT 0,
  token    bigint NOT NULL DEFAULT 0, -- the largest that was given under it
  declared bigint NOT NULL DEFAULT 0, -- the last id when slots was said
  checked  bigint NOT NULL DEFAULT 0  -- when it was last checked for repair
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queue_limits_ns ON dibs.queue_limits (ns, checked);

-- Notes that somebody must look at a limit: a transaction of a caller's freed so many slots of it, or a task that
-- should have been promoted was locked, or a step had more to promote than it may. Rows are only added and deleted,
-- so a note waits for nobody.
CREATE TABLE dibs.queue_debts (
  ns    text COLLATE "C" NOT NULL,
  lim   uuid NOT NULL,
  freed int NOT NULL
);
CREATE INDEX queue_debts_ns ON dibs.queue_debts (ns, lim);

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
  UNIQUE (key, owner, token, ns)
);
CREATE INDEX queue_workers_here ON dibs.queue_workers (ns) WHERE gone = 0;
CREATE INDEX queue_workers_gone ON dibs.queue_workers (ns, gone) WHERE gone <> 0;

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
-- many tasks may be given as fit in between busy and burst from now on.
CREATE TABLE dibs.queue_rates (
  ns    text COLLATE "C" NOT NULL,
  k     bigint NOT NULL,
  every bigint NOT NULL, -- the time that one task costs
  burst bigint NOT NULL, -- how far ahead of now busy may be
  busy  bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ns, k)
);

-- Counters grow by added rows: two transactions that count the same thing must not wait for each other. Tend sums
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

-- Queues of which an idle worker wants to hear. Telling it empties the row, so that nobody tells it again before it
-- has asked again.
CREATE TABLE dibs.queue_watched (
  queue   bigint PRIMARY KEY,
  watched bigint NOT NULL DEFAULT 0 -- until then
) WITH (fillfactor = 50);

-- Notifies the workers that watch a queue, once. Returns whether it did. NOTIFY makes commits wait for each other, so
-- a queue that nobody watches is not told of. The row is disarmed under SKIP LOCKED: if another transaction is
-- telling just now, that is enough. A transaction of a caller's (p_own) notifies without touching the row, which it
-- would lock until its end.
CREATE FUNCTION dibs.queue_tell(p_queue bigint, p_own bool) RETURNS bool LANGUAGE plpgsql VOLATILE
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
  SELECT id, place, queue, kind, enqueued, due, token, fetched, p_now, expires, hold, uniq, lim, slots, worker,
         attempts, granted, crashes, snoozes, p_state, contention, false, suspect, begun, args, cold, NULL, p_reason
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

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_settle(p_lim uuid) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  l     dibs.queue_limits;
  lane  record;
  free  int;
  want  int;
  n     int;
  moved int := 0;
  t_now bigint := dibs.now_us();
  most CONSTANT int := 1000;
BEGIN
  SELECT * INTO l FROM dibs.queue_limits WHERE lim = p_lim;
  IF NOT FOUND THEN
    RETURN 0; -- its nominees are met by a fetch, which makes it
  END IF;
  free := greatest(l.slots - l.running, 0);
  FOR lane IN
    WITH RECURSIVE lanes AS (
      (SELECT queue, kind FROM dibs.tasks WHERE state = 3 AND lim = p_lim ORDER BY queue, kind LIMIT 1)
      UNION ALL
      SELECT n.queue, n.kind FROM lanes p, LATERAL (
        SELECT queue, kind FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND (queue, kind) > (p.queue, p.kind)
        ORDER BY queue, kind LIMIT 1) n
    )
    SELECT * FROM lanes
  LOOP
    UPDATE dibs.tasks SET state = 4 WHERE id = ANY (ARRAY(
      SELECT id FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND queue = lane.queue AND kind = lane.kind
        AND (contention IS NULL OR contention = 3)
      ORDER BY place OFFSET free LIMIT most FOR NO KEY UPDATE SKIP LOCKED));
  END LOOP;
  IF free = 0 THEN
    RETURN 0;
  END IF;
  FOR lane IN
    WITH RECURSIVE lanes AS (
      (SELECT queue, kind FROM dibs.tasks WHERE state = 4 AND lim = p_lim ORDER BY queue, kind LIMIT 1)
      UNION ALL
      SELECT n.queue, n.kind FROM lanes p, LATERAL (
        SELECT queue, kind FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND (queue, kind) > (p.queue, p.kind)
        ORDER BY queue, kind LIMIT 1) n
    )
    SELECT * FROM lanes
  LOOP
    SELECT count(*) INTO want FROM (
      SELECT FROM dibs.tasks WHERE state = 3 AND lim = p_lim AND queue = lane.queue AND kind = lane.kind
        AND (contention IS NULL OR contention = 3)
      LIMIT free) have;
    want := least(free - want, most);
    IF want > 0 THEN
      UPDATE dibs.tasks SET state = 3 WHERE id = ANY (ARRAY(
        SELECT id FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND queue = lane.queue AND kind = lane.kind
          AND (expires IS NULL OR expires > t_now)
        ORDER BY place LIMIT want FOR NO KEY UPDATE SKIP LOCKED));
      GET DIAGNOSTICS n = ROW_COUNT;
      moved := moved + n;
      PERFORM dibs.queue_tell(lane.queue, false);
      IF n < want AND EXISTS (
        SELECT FROM dibs.tasks WHERE state = 4 AND lim = p_lim AND queue = lane.queue AND kind = lane.kind
          AND (expires IS NULL OR expires > t_now)) THEN
        INSERT INTO dibs.queue_debts VALUES (l.ns, p_lim, 0);
      END IF;
    END IF;
  END LOOP;
  RETURN moved;
END $$;

-- Makes the rows of limits that only transactions of callers have named so far, from tasks under them: such a
-- transaction must not lock a limit, so it makes none. In the order of the limits.
CREATE FUNCTION dibs.queue_meet(p_ns text, p_ids bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  INSERT INTO dibs.queue_limits (lim, ns, key, slots)
  SELECT DISTINCT ON (t.lim) t.lim, p_ns, coalesce(t.cold::json -> 'limit' ->> 'key', ''), t.slots
  FROM dibs.tasks t WHERE t.id = ANY (p_ids) AND t.lim IS NOT NULL AND (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = t.lim) IS NULL
  ORDER BY t.lim
  ON CONFLICT DO NOTHING;
END $$;

-- Notes that somebody must look at a limit. A limit without a row, under which nobody is blocked, needs no look.
CREATE FUNCTION dibs.queue_owe(p_ns text, p_lim uuid) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  INSERT INTO dibs.queue_debts SELECT p_ns, p_lim, 0
  WHERE EXISTS (SELECT FROM dibs.queue_limits WHERE lim = p_lim) OR EXISTS (SELECT FROM dibs.tasks WHERE state = 4 AND lim = p_lim);
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_owed(p_ns text, p_most int, OUT lims uuid[], OUT ids bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  lims := ARRAY(SELECT d.lim FROM dibs.queue_debts d
    WHERE d.ns = p_ns AND coalesce((SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = d.lim), (SELECT t.lim FROM dibs.tasks t WHERE t.state = 4 AND t.lim = d.lim LIMIT 1)) IS NOT NULL
    GROUP BY d.lim LIMIT p_most);
  ids := ARRAY(SELECT (SELECT t.id FROM dibs.tasks t WHERE t.state = 4 AND t.lim = v LIMIT 1)
    FROM unnest(lims) v WHERE (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = v) IS NULL);
END $$;

-- Replaced in version 9.
CREATE FUNCTION dibs.queue_resize(p_lim uuid, p_slots int, p_declared bigint, p_by text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  l dibs.queue_limits;
BEGIN
  SELECT * INTO l FROM dibs.queue_limits WHERE lim = p_lim;
  UPDATE dibs.queue_limits SET slots = p_slots, declared = greatest(declared, p_declared) WHERE lim = p_lim;
  IF l.slots <> p_slots THEN
    PERFORM dibs.queue_event(l.ns, 'limit-changed', to_json(l.key)::text || ' from ' || l.slots || ' to ' || p_slots
      || CASE WHEN p_by = '' THEN '' ELSE ' by ' || p_by END);
  END IF;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_pay(p_lims uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  l     uuid;
  freed int;
BEGIN
  FOREACH l IN ARRAY p_lims LOOP
    WITH paid AS (DELETE FROM dibs.queue_debts d USING dibs.queue_limits x WHERE x.lim = l AND d.ns = x.ns AND d.lim = l RETURNING d.freed)
    SELECT coalesce(sum(p.freed), 0) INTO freed FROM paid p;
    UPDATE dibs.queue_limits SET running = greatest(running - freed, 0) WHERE lim = l AND freed > 0;
    PERFORM dibs.queue_settle(l);
  END LOOP;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_ripen(p_queue bigint, p_now bigint, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
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
  FROM (SELECT id, row_number() OVER (PARTITION BY lim, queue, kind ORDER BY place) AS n FROM dibs.tasks WHERE id = ANY (ids)) r
  WHERE t.id = r.id;
  PERFORM dibs.queue_tell(p_queue, false);
  RETURN cardinality(ids);
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_declare(p_ns text, p_lim uuid[], p_key text[], p_slots int[], p_uniq uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  lims uuid[];
BEGIN
  INSERT INTO dibs.queue_limits (lim, ns, key, slots)
  SELECT DISTINCT ON (q.lim) q.lim, p_ns, q.key, q.slots
  FROM (
    SELECT * FROM unnest(p_lim, p_key, p_slots) WITH ORDINALITY u(lim, key, slots, n)
    UNION ALL
    SELECT t.lim, coalesce(t.cold::json -> 'limit' ->> 'key', ''), t.slots, 0 -- as in queue_meet
    FROM unnest(p_uniq) u(uniq), LATERAL (SELECT * FROM dibs.tasks WHERE uniq = u.uniq AND held OFFSET 0) t WHERE t.lim IS NOT NULL
  ) q
  WHERE (SELECT k.lim FROM dibs.queue_limits k WHERE k.lim = q.lim) IS NULL
  ORDER BY q.lim, n DESC
  ON CONFLICT DO NOTHING;
  lims := p_lim || ARRAY(SELECT t.lim FROM unnest(p_uniq) q(u), LATERAL (SELECT lim FROM dibs.tasks WHERE uniq = q.u AND held OFFSET 0) t WHERE t.lim IS NOT NULL);
  PERFORM FROM dibs.queue_limits k WHERE k.lim = ANY (lims) ORDER BY k.lim FOR NO KEY UPDATE;
END $$;

-- Replaced in version 9.
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
    IF l.mixed OR l.slots <> (SELECT slots FROM dibs.queue_limits WHERE lim = l.lim) THEN
      PERFORM dibs.queue_resize(l.lim, l.slots, l.id, '');
      PERFORM dibs.queue_settle(l.lim);
      changed := true;
    END IF;
  END LOOP;
  RETURN changed;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_admit(
  p_ns text, p_own boolean, p_wait int,
  p_queue bigint[], p_kind bigint[], p_rank int[], p_args text[], p_cold text[], p_due bigint[], p_delay bigint[], p_expires bigint[],
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
  t_now := dibs.now_us();
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
      WHEN q.nth <= k.slots - k.running - (
        SELECT count(*) FROM (SELECT FROM dibs.tasks t WHERE t.state = 3 AND t.lim = q.lim AND t.queue = q.queue AND t.kind = q.kind
          AND (t.contention IS NULL OR t.contention = 3) LIMIT greatest(k.slots - k.running, 0)) have) THEN 3
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
    taken := ARRAY(SELECT v FROM dibs.queue_insert(NULL, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_cold, p_due, p_delay, p_expires,
      p_uniq, p_hold, p_lim, p_slots, p_contention) v);
  EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    taken := '{}';
    FOR x IN SELECT n FROM unnest(p_uniq) WITH ORDINALITY q(u, n) ORDER BY u NULLS LAST, n LOOP
      BEGIN
        PERFORM set_config('lock_timeout', greatest((till - dibs.now_us()) / 1000, 1) || 'ms', true);
        taken := taken || ARRAY(SELECT v FROM dibs.queue_insert(x, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_cold, p_due, p_delay, p_expires,
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

  -- What is left has met a holder of its key.
  FOR x IN SELECT n FROM unnest(p_uniq, ids) WITH ORDINALITY q(u, id, n)
    WHERE NOT q.id = ANY (taken) AND (passed IS NULL OR NOT n = ANY (passed)) ORDER BY u LOOP
    BEGIN
      i := x; answer := NULL;
      WHILE answer IS NULL LOOP
        PERFORM set_config('lock_timeout', greatest((till - dibs.now_us()) / 1000, 1) || 'ms', true);
        there := NULL;
        IF p_own OR p_again[x] > 0 THEN
          -- What waits must not start before we have committed; what runs is left alone.
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
            PERFORM dibs.queue_owe(p_ns, there.lim);
          END IF;
        ELSIF there.state = 10 AND there.ended + there.hold <= t_now THEN
          PERFORM dibs.queue_free(ARRAY[there.id]);
        ELSIF p_again[x] = 0 OR there.state IN (5, 10) AND there.hold >= 0 THEN
          answer := 2; -- who holds its key until the end, or in a window, is not replaced (promise 17)
        ELSIF there.state NOT IN (5, 10) THEN
          -- It takes over what is new, and keeps its id and place in its priority (rule Q3).
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
            cold = ((cold::jsonb - 'tags') || jsonb_strip_nulls(jsonb_build_object('tags', p_cold[x]::jsonb -> 'tags')))::text,
            place = (CASE WHEN place >> 53 < 19 THEN 0 ELSE 19 END + p_rank[x] % 19)::bigint << 53 | id,
            granted = attempts, snoozes = 0
          WHERE id = there.id;
          IF there.lim IS NOT NULL AND p_own THEN
            PERFORM dibs.queue_owe(p_ns, there.lim);
          ELSIF there.lim IS NOT NULL THEN
            PERFORM dibs.queue_settle(there.lim);
            SELECT state INTO there.state FROM dibs.tasks WHERE id = there.id;
          END IF;
          answer := 3;
        ELSE
          -- A worker has its arguments already: the new ones make a task of their own, which has the key from now on.
          UPDATE dibs.tasks SET held = false WHERE id = there.id AND uniq = p_uniq[x] AND held;
        END IF;
        IF answer IS NULL THEN
          taken := ARRAY(SELECT v FROM dibs.queue_insert(x, ids, t_now, states, p_queue, p_kind, p_rank, p_args, p_cold, p_due, p_delay, p_expires,
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
  -- Those that were not taken in may have been counted as nominees.
  IF p_own THEN
    PERFORM dibs.queue_owe(p_ns, v) FROM (SELECT DISTINCT unnest(p_lim)) q(v) WHERE v IS NOT NULL;
  ELSE
    PERFORM dibs.queue_settle(v) FROM (SELECT DISTINCT unnest(p_lim)) q(v) WHERE v IS NOT NULL;
  END IF;
END $$;

-- Inserts item p_only of the batch, or with null all of it, and returns the ids of those whose unique key was free
-- (Q1). Rows go in in the order of the keys, so two batches with the same keys wait for each other in one order. ON
-- CONFLICT waits for a transaction that has inserted the same key and not ended, for lock_timeout at most.
CREATE FUNCTION dibs.queue_insert(
  p_only int, p_ids bigint[], p_now bigint, p_states smallint[],
  p_queue bigint[], p_kind bigint[], p_rank int[], p_args text[], p_cold text[], p_due bigint[], p_delay bigint[], p_expires bigint[],
  p_uniq uuid[], p_hold bigint[], p_lim uuid[], p_slots int[], p_contention smallint[])
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
RETURN QUERY
INSERT INTO dibs.tasks (id, place, queue, kind, enqueued, due, expires, hold, uniq, lim, slots, state, contention, held, args, cold)
SELECT q.id, q.rank::bigint << 53 | q.id, q.queue, q.kind, p_now, CASE WHEN q.due = 0 THEN p_now ELSE q.due END + q.delay,
       nullif(q.expires, 0), CASE WHEN q.uniq IS NOT NULL THEN q.hold END,
       q.uniq, q.lim, nullif(q.slots, 0), q.state, nullif(q.contention, 0::smallint), q.uniq IS NOT NULL, q.args, nullif(q.cold, '')
FROM unnest(p_ids, p_states, p_queue, p_kind, p_rank, p_args, p_cold, p_due, p_delay, p_expires, p_uniq, p_hold, p_lim, p_slots, p_contention)
  WITH ORDINALITY q(id, state, queue, kind, rank, args, cold, due, delay, expires, uniq, hold, lim, slots, contention, n)
WHERE p_only IS NULL OR q.n = p_only
ORDER BY q.uniq, q.n
ON CONFLICT (uniq) WHERE held DO NOTHING
RETURNING id;
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
  SELECT id, place, queue, kind, enqueued, due, token, fetched, ended, expires, hold, uniq, lim, slots, worker,
         attempts, granted, crashes, snoozes, state, contention, false, suspect, begun, args, cold, stop, reason
  FROM gone;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Dropped in version 8.
CREATE FUNCTION dibs.queue_ahead(p_queue bigint, p_kinds bigint[], p_banned bigint[], p_rated bigint[], p_allowed int[], p_need int)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ahead bigint[] := ARRAY(SELECT t.place FROM dibs.tasks t WHERE t.queue = p_queue AND t.state = 1
    AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (p_banned IS NULL OR t.kind <> ALL (p_banned))
    AND (p_rated IS NULL OR t.kind <> ALL (p_rated))
    ORDER BY t.place LIMIT p_need);
BEGIN
  FOR i IN 1 .. coalesce(cardinality(p_rated), 0) LOOP
    ahead := ahead || ARRAY(SELECT t.place FROM dibs.tasks t WHERE t.queue = p_queue AND t.state = 1 AND t.kind = p_rated[i]
      AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (p_banned IS NULL OR t.kind <> ALL (p_banned))
      ORDER BY t.place LIMIT least(p_need, p_allowed[i]));
  END LOOP;
  RETURN ahead;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_fetch(p_ns text, p_key bytea, p_owner text, p_token bigint, p_not_after bigint,
  p_queues bigint[], p_kinds bigint[], p_most int, p_suspects bool, p_charged bool, p_look int)
RETURNS TABLE (task bigint, token bigint, place bigint, queue bigint, kind bigint, due bigint, enqueued bigint, expires bigint,
  attempts int, granted int, crashes int, snoozes int, suspect bool, args text, cold text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  me      int;
  t_now   bigint := dibs.now_us();
  this    bigint;
  need    int := p_most;
  had     int;
  flags   int := 0;
  next    bigint;
  soonest bigint := 0;
  pauses  bool;
  banned  bigint[];
  rated   bigint[];
  allowed int[];
  spent   bigint[];
  doubted bool := NOT p_suspects; -- no suspect is given any more
  lims    uuid[];                 -- that are locked
  owed    record;
  mine    uuid[];
  limited bool;
  c       record;
  l       dibs.queue_limits;
  ahead   bigint[];
  wary    bigint;                 -- the place of the suspect without a limit that may be given
  given   int;
  pick    bigint;
  picked  tid[];
  others  tid[];
  n       int;
BEGIN
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
  -- A pause waits for the fetches that are under way, so that nothing is given once it is acknowledged.
  PERFORM pg_advisory_xact_lock_shared(1684628081, hashtext(p_ns));
  pauses := EXISTS (SELECT FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > t_now));
  IF EXISTS (SELECT FROM dibs.queue_rates r WHERE r.ns = p_ns) THEN
    PERFORM FROM dibs.queue_rates r WHERE r.ns = p_ns AND (p_kinds IS NULL OR r.k = ANY (p_kinds)) ORDER BY r.k FOR NO KEY UPDATE;
    t_now := dibs.now_us();
    SELECT array_agg(r.k), array_agg(least(greatest((r.burst - (greatest(r.busy, t_now) - t_now)) / r.every, 0), p_most)::int)
    INTO rated, allowed
    FROM dibs.queue_rates r WHERE r.ns = p_ns AND (p_kinds IS NULL OR r.k = ANY (p_kinds));
  END IF;
  limited := EXISTS (SELECT FROM dibs.queue_limits x WHERE x.ns = p_ns) OR EXISTS (SELECT FROM dibs.queue_debts d WHERE d.ns = p_ns) OR EXISTS (
    SELECT FROM unnest(p_queues) v(v), LATERAL (SELECT FROM dibs.tasks t WHERE t.queue = v.v AND t.state = 3 AND t.place >= 0 ORDER BY t.place LIMIT 1) w);
  IF limited THEN
    -- The limits that are met below, and those with notes. They are locked before any task is: an enqueue has limits
    -- locked, and may wait for a task's unique key.
    spent := ARRAY(
      SELECT w.id FROM unnest(p_queues) v(v), LATERAL (SELECT t.id FROM dibs.tasks t WHERE t.queue = v.v AND t.state = 3 AND t.place >= 0
        AND (p_kinds IS NULL OR t.kind = ANY (p_kinds))
        AND (rated IS NULL OR NOT t.kind = ANY (rated) OR allowed[array_position(rated, t.kind)] > 0)
        ORDER BY t.place LIMIT (2 * need + 20) * p_look) w);
    SELECT * INTO owed FROM dibs.queue_owed(p_ns, 100);
    PERFORM dibs.queue_meet(p_ns, spent || owed.ids);
    lims := ARRAY(SELECT x.lim FROM dibs.queue_limits x
      WHERE x.lim = ANY (owed.lims || ARRAY(SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (spent)))
      ORDER BY x.lim FOR NO KEY UPDATE);
    PERFORM dibs.queue_pay(ARRAY(SELECT DISTINCT d.lim FROM dibs.queue_debts d WHERE d.ns = p_ns AND d.lim = ANY (lims)));
  END IF;

  FOREACH this IN ARRAY p_queues LOOP
    EXIT WHEN need <= 0;
    banned := NULL;
    IF pauses THEN
      CONTINUE WHEN EXISTS (SELECT FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > t_now)
        AND z.kind = '' AND (z.queue = '' OR z.q = this));
      banned := ARRAY(SELECT z.k FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > t_now)
        AND z.kind <> '' AND (z.queue = '' OR z.q = this));
    END IF;
    SELECT t.due INTO next FROM dibs.tasks t WHERE t.queue = this AND t.state IN (0, 6) ORDER BY t.due LIMIT 1;
    IF next <= t_now THEN
      IF dibs.queue_ripen(this, t_now, 1000) = 1000 THEN
        flags := flags | 4;
      END IF;
      SELECT t.due INTO next FROM dibs.tasks t WHERE t.queue = this AND t.state IN (0, 6) AND t.due > t_now ORDER BY t.due LIMIT 1;
    END IF;
    IF next IS NOT NULL AND (soonest = 0 OR next < soonest) THEN
      soonest := next;
    END IF;
    had := need;
    given := 0;
    ahead := NULL;

    -- Tasks with a limit. The nominees name their limits; what is given is the first of each one's lane.
    IF limited AND EXISTS (SELECT FROM dibs.tasks t WHERE t.queue = this AND t.state = 3 AND t.place >= 0 ORDER BY t.place LIMIT 1) THEN
      ahead := dibs.queue_ahead(this, p_kinds, banned, rated, allowed, need);
      wary := NULL;
      IF NOT doubted THEN
        SELECT t.place INTO wary FROM dibs.tasks t
        WHERE t.queue = this AND t.state = 2 AND (p_charged OR t.crashes = 0)
          AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (banned IS NULL OR t.kind <> ALL (banned))
          AND (rated IS NULL OR NOT t.kind = ANY (rated) OR allowed[array_position(rated, t.kind)] > 0)
        ORDER BY t.place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
        ahead := ahead || wary;
      END IF;
      spent := ARRAY(SELECT t.id FROM dibs.tasks t WHERE t.queue = this AND t.state = 3 AND t.place >= 0
        AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (banned IS NULL OR t.kind <> ALL (banned))
        AND (rated IS NULL OR NOT t.kind = ANY (rated) OR allowed[array_position(rated, t.kind)] > 0)
        ORDER BY t.place LIMIT (2 * need + 20) * p_look);
      IF cardinality(spent) = (2 * need + 20) * p_look THEN
        flags := flags | 4;
      END IF;
      -- What has come since is not waited for.
      SELECT count(DISTINCT t.lim) INTO n FROM dibs.tasks t WHERE t.id = ANY (spent);
      mine := ARRAY(SELECT x.lim FROM dibs.queue_limits x
        WHERE x.lim = ANY (ARRAY(SELECT t.lim FROM dibs.tasks t WHERE t.id = ANY (spent))) FOR NO KEY UPDATE SKIP LOCKED);
      IF cardinality(mine) < n THEN
        flags := flags | 4;
      END IF;
      lims := coalesce(lims, '{}') || mine;
      t_now := dibs.now_us();
      FOR c IN SELECT t.* FROM dibs.tasks t WHERE t.id = ANY (spent) AND t.state::int = 3 AND t.lim = ANY (mine) ORDER BY t.place LOOP
        EXIT WHEN need <= 0;
        SELECT * INTO l FROM dibs.queue_limits x WHERE x.lim = c.lim;
        IF c.slots <> l.slots AND c.id > l.declared THEN
          PERFORM dibs.queue_resize(c.lim, c.slots, c.id, '');
          l.slots := c.slots;
        END IF;
        IF l.running < l.slots THEN
          IF c.contention IN (1, 2) THEN
            SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = c.id AND t.state::int = 3 FOR NO KEY UPDATE SKIP LOCKED;
          ELSE
            SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = ANY (ARRAY[
              (SELECT x.id FROM dibs.tasks x WHERE x.state = 3 AND x.lim = c.lim AND x.queue = c.queue AND x.kind = c.kind
                 AND (x.contention IS NULL OR x.contention = 3) ORDER BY x.place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED),
              (SELECT x.id FROM dibs.tasks x WHERE x.state = 4 AND x.lim = c.lim AND x.queue = c.queue AND x.kind = c.kind
                 AND (x.expires IS NULL OR x.expires > t_now) ORDER BY x.place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)])
            ORDER BY t.place LIMIT 1;
          END IF;
          CONTINUE WHEN pick IS NULL;
          SELECT * INTO c FROM dibs.tasks t WHERE t.id = pick;
          IF c.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'expired', t_now);
            flags := flags | 4;
            CONTINUE;
          END IF;
          -- Whatever stands before it without a limit comes first.
          CONTINUE WHEN given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.place) >= had;
          CONTINUE WHEN c.suspect AND (doubted OR wary < c.place OR c.crashes > 0 AND NOT p_charged);
          IF rated IS NOT NULL AND c.kind = ANY (rated) THEN
            CONTINUE WHEN allowed[array_position(rated, c.kind)] <= 0;
            allowed[array_position(rated, c.kind)] := allowed[array_position(rated, c.kind)] - 1;
            UPDATE dibs.queue_rates r SET busy = greatest(r.busy, t_now) + r.every WHERE r.ns = p_ns AND r.k = c.kind;
          END IF;
          l.token := greatest(l.token + 1, c.token + 1, t_now);
          UPDATE dibs.queue_limits x SET running = running + 1, token = l.token WHERE x.lim = c.lim;
          RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = l.token, worker = me, fetched = t_now, begun = false, stop = NULL
            WHERE t.id = pick
            RETURNING t.id, t.token, t.place, t.queue, t.kind, t.due, t.enqueued, t.expires,
              t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.cold;
          IF c.suspect THEN
            doubted := true;
            ahead := array_remove(ahead, wary);
          END IF;
          need := need - 1;
          given := given + 1;
        ELSIF c.contention IN (1, 2) THEN
          CONTINUE WHEN given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.place) >= had;
          CONTINUE WHEN c.suspect AND (doubted OR wary < c.place OR c.crashes > 0 AND NOT p_charged); -- nothing is decided about it yet
          SELECT t.id INTO pick FROM dibs.tasks t WHERE t.id = c.id AND t.state::int = 3 FOR NO KEY UPDATE SKIP LOCKED;
          CONTINUE WHEN pick IS NULL;
          IF c.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'expired', t_now);
          ELSIF c.contention = 1 THEN
            PERFORM dibs.queue_discard(ARRAY[pick], 'overlap', t_now);
          ELSE
            UPDATE dibs.tasks t SET stop = 'replaced' WHERE t.id = ANY (ARRAY(
              SELECT x.id FROM dibs.tasks x WHERE x.state = 5 AND x.lim = c.lim AND x.contention IN (2, 3) AND x.stop IS NULL
              FOR NO KEY UPDATE SKIP LOCKED));
            PERFORM dibs.queue_discard(ARRAY(
              SELECT x.id FROM dibs.tasks x WHERE x.contention IN (2, 3) AND x.state IN (3, 4) AND x.lim = c.lim AND x.id < pick
              FOR UPDATE SKIP LOCKED), 'superseded', t_now);
            -- As long as another transaction has one of them, which may be rolled back, it asks again.
            UPDATE dibs.tasks t SET state = 4, contention = 3 WHERE t.id = pick
              AND NOT EXISTS (SELECT FROM dibs.tasks x WHERE x.state = 5 AND x.lim = c.lim AND x.contention IN (2, 3) AND x.stop IS NULL)
              AND NOT EXISTS (SELECT FROM dibs.tasks x WHERE x.contention IN (2, 3) AND x.state IN (3, 4) AND x.lim = c.lim AND x.id < pick);
          END IF;
        END IF;
      END LOOP;
      PERFORM dibs.queue_settle(v) FROM unnest(mine) v;
    END IF;

    -- One suspect at most.
    IF NOT doubted AND need > 0 THEN
      SELECT t.ctid, t.place, t.id, t.expires, t.kind INTO c FROM dibs.tasks t
      WHERE t.queue = this AND t.state = 2 AND (p_charged OR t.crashes = 0)
        AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (banned IS NULL OR t.kind <> ALL (banned))
        AND (rated IS NULL OR NOT t.kind = ANY (rated) OR allowed[array_position(rated, t.kind)] > 0)
      ORDER BY t.place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
      IF FOUND THEN
        IF ahead IS NULL THEN
          ahead := dibs.queue_ahead(this, p_kinds, banned, rated, allowed, need);
        END IF;
        IF c.expires <= t_now THEN
          PERFORM dibs.queue_discard(ARRAY[c.id], 'expired', t_now);
          flags := flags | 4;
        ELSIF given + (SELECT count(*) FROM unnest(ahead) a(v) WHERE a.v < c.place) < had THEN
          IF rated IS NOT NULL AND c.kind = ANY (rated) THEN
            allowed[array_position(rated, c.kind)] := allowed[array_position(rated, c.kind)] - 1;
            UPDATE dibs.queue_rates r SET busy = greatest(r.busy, t_now) + r.every WHERE r.ns = p_ns AND r.k = c.kind;
          END IF;
          RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = greatest(t.token + 1, t_now), worker = me, fetched = t_now, begun = false, stop = NULL
            WHERE t.id = c.id
            RETURNING t.id, t.token, t.place, t.queue, t.kind, t.due, t.enqueued, t.expires,
              t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.cold;
          doubted := true;
          need := need - 1;
        END IF;
      END IF;
    END IF;

    -- All others.
    WHILE need > 0 LOOP
      picked := ARRAY(
        SELECT t.ctid FROM dibs.tasks t WHERE t.queue = this AND t.state = 1
          AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (banned IS NULL OR t.kind <> ALL (banned))
          AND (rated IS NULL OR t.kind <> ALL (rated))
        ORDER BY t.place LIMIT need FOR NO KEY UPDATE SKIP LOCKED);
      IF rated IS NOT NULL THEN
        FOR i IN 1 .. cardinality(rated) LOOP
          others := ARRAY(
            SELECT t.ctid FROM dibs.tasks t WHERE t.queue = this AND t.state = 1 AND t.kind = rated[i]
              AND (p_kinds IS NULL OR t.kind = ANY (p_kinds)) AND (banned IS NULL OR t.kind <> ALL (banned))
            ORDER BY t.place LIMIT least(need, allowed[i]) FOR NO KEY UPDATE SKIP LOCKED);
          picked := picked || others;
        END LOOP;
        picked := ARRAY(SELECT t.ctid FROM dibs.tasks t WHERE t.ctid = ANY (picked) ORDER BY t.place LIMIT need);
        FOR i IN 1 .. cardinality(rated) LOOP
          SELECT count(*) INTO n FROM dibs.tasks t WHERE t.ctid = ANY (picked) AND t.kind = rated[i];
          allowed[i] := allowed[i] - n;
          UPDATE dibs.queue_rates r SET busy = greatest(r.busy, t_now) + n * r.every WHERE r.ns = p_ns AND r.k = rated[i] AND n > 0;
        END LOOP;
      END IF;
      RETURN QUERY UPDATE dibs.tasks t SET state = 5, token = greatest(t.token + 1, t_now), worker = me, fetched = t_now, begun = false, stop = NULL
        WHERE t.ctid = ANY (picked) AND (t.expires IS NULL OR t.expires > t_now)
        RETURNING t.id, t.token, t.place, t.queue, t.kind, t.due, t.enqueued, t.expires,
          t.attempts, t.granted, t.crashes, t.snoozes, t.suspect, t.args, t.cold;
      GET DIAGNOSTICS n = ROW_COUNT;
      need := need - n;
      EXIT WHEN n = cardinality(picked);
      spent := ARRAY(SELECT t.id FROM dibs.tasks t WHERE t.ctid = ANY (picked) AND t.expires <= t_now);
      EXIT WHEN spent = '{}';
      PERFORM dibs.queue_discard(spent, 'expired', t_now);
    END LOOP;
  END LOOP;

  IF need < p_most AND coalesce(lims, '{}') = '{}' THEN
    -- A claim that a crash of the server loses only lets the task be run by another: its token is refused then. Slots
    -- are never given on such terms (rule Q4).
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
  PERFORM FROM dibs.tasks t WHERE t.id = ANY (p_ids) ORDER BY t.id FOR NO KEY UPDATE;
  RETURN QUERY UPDATE dibs.tasks t SET begun = true, held = t.held AND t.hold <> -1
    FROM unnest(p_ids, p_tokens) q(id, token)
    WHERE t.id BETWEEN q.id AND q.id AND t.token = q.token AND t.state::int = 5 AND t.worker IS NOT DISTINCT FROM me AND me IS NOT NULL
    RETURNING t.id;
END $$;

-- Replaced in version 8.
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
    PERFORM set_config('lock_timeout', '300ms', true);
  END IF;
  IF me IS NOT NULL THEN
    IF EXISTS (SELECT FROM dibs.queue_limits x WHERE x.ns = p_ns) THEN
      lims := ARRAY(SELECT DISTINCT x.lim FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND x.lim IS NOT NULL ORDER BY x.lim);
      IF NOT p_own THEN
        PERFORM FROM dibs.queue_limits x WHERE x.lim = ANY (lims) ORDER BY x.lim FOR NO KEY UPDATE;
      END IF;
    END IF;
    IF p_skip THEN
      done := ARRAY(SELECT x.id FROM dibs.tasks x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED);
      busy := ARRAY(SELECT x.id FROM dibs.tasks x WHERE x.id = ANY (p_ids) AND NOT x.id = ANY (done));
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
      -- More than one statement below touches them: so that they are locked in order, all are first.
      PERFORM FROM dibs.tasks x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR NO KEY UPDATE;
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
      SELECT id, place, queue, kind, enqueued, due, token, fetched, t_now, expires, hold, uniq, lim, slots, worker,
             attempts + 1, granted, crashes, snoozes, 10, contention, false, suspect, begun, args, cold, NULL, why
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
            PERFORM dibs.queue_tell(t.queue, p_own);
          ELSE
            UPDATE dibs.tasks x SET attempts = t.attempts WHERE x.id = t.id;
            PERFORM dibs.queue_end(ARRAY[t.id], CASE t.verdict WHEN 3 THEN 11 WHEN 4 THEN 13 ELSE 12 END::smallint, t.why, t_now);
        END CASE;
      END LOOP;
    END IF;

    IF freed <> '{}' AND p_own THEN
      INSERT INTO dibs.queue_debts SELECT p_ns, v, count(*) FROM unnest(freed) v GROUP BY v;
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

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_rescue(p_ns text, p_worker int, p_most int, OUT rescued int, OUT crashed int) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ids   bigint[] := ARRAY(SELECT id FROM dibs.tasks WHERE worker = p_worker AND state = 5 LIMIT p_most);
  t     dibs.tasks;
  t_now bigint;
BEGIN
  rescued := 0; crashed := 0;
  PERFORM FROM dibs.queue_limits x WHERE x.lim = ANY (ARRAY(SELECT DISTINCT lim FROM dibs.tasks WHERE id = ANY (ids) AND lim IS NOT NULL))
    ORDER BY x.lim FOR NO KEY UPDATE;
  t_now := dibs.now_us();
  FOR t IN SELECT * FROM dibs.tasks WHERE id = ANY (ids) AND state::int = 5 AND worker IS NOT DISTINCT FROM p_worker ORDER BY id FOR NO KEY UPDATE SKIP LOCKED LOOP
    IF t.suspect AND t.begun THEN
      t.crashes := t.crashes + 1;
      INSERT INTO dibs.task_attempts (task, token, worker, n, outcome, started, ended, error)
      VALUES (t.id, t.token, p_worker, t.attempts + 1, 'crashed', t.fetched, t_now, '') ON CONFLICT DO NOTHING;
    END IF;
    UPDATE dibs.tasks SET state = CASE WHEN lim IS NULL THEN 2 ELSE 3 END, token = token + 1, suspect = true, begun = false,
      crashes = t.crashes, stop = NULL, contention = CASE contention WHEN 3 THEN 2 ELSE contention END
    WHERE id = t.id;
    IF t.crashes >= coalesce((t.cold::json ->> 'max_crashes')::int, 3) THEN
      PERFORM dibs.queue_end(ARRAY[t.id], 14::smallint, NULL, t_now);
      PERFORM dibs.queue_tally(t.queue, t.kind, 'crashed', 1);
      crashed := crashed + 1;
    ELSIF t.stop IS NOT NULL THEN
      PERFORM dibs.queue_end(ARRAY[t.id], 13::smallint, t.stop, t_now);
      PERFORM dibs.queue_tally(t.queue, t.kind, 'canceled', 1);
      rescued := rescued + 1;
    ELSE
      PERFORM dibs.queue_tally(t.queue, t.kind, 'rescued', 1);
      PERFORM dibs.queue_tell(t.queue, false);
      rescued := rescued + 1;
    END IF;
    IF t.lim IS NOT NULL THEN
      UPDATE dibs.queue_limits SET running = greatest(running - 1, 0) WHERE lim = t.lim;
      PERFORM dibs.queue_settle(t.lim);
    END IF;
  END LOOP;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_leave(p_ns text, p_key bytea, p_owner text, p_token bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  me int;
BEGIN
  UPDATE dibs.queue_workers SET gone = dibs.now_us() WHERE key = p_key AND owner = p_owner AND token = p_token AND ns = p_ns AND gone = 0
  RETURNING id INTO me;
  IF me IS NOT NULL THEN
    PERFORM dibs.queue_rescue(p_ns, me, 1000000000);
  END IF;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_expire(p_ns text, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  t_now bigint := dibs.now_us();
  ids   bigint[];
  lims  uuid[];
BEGIN
  ids := ARRAY(
    SELECT t.id FROM (SELECT DISTINCT id FROM dibs.queue_names WHERE ns = p_ns AND NOT kind) q,
      LATERAL (SELECT x.id FROM dibs.tasks x WHERE x.queue = q.id AND x.expires <= t_now AND x.state IN (0, 1, 2, 3, 4, 6)
        ORDER BY x.expires LIMIT p_most) t
    LIMIT p_most);
  lims := ARRAY(SELECT DISTINCT lim FROM dibs.tasks WHERE id = ANY (ids) AND lim IS NOT NULL);
  PERFORM dibs.queue_meet(p_ns, ids);
  PERFORM FROM dibs.queue_limits WHERE lim = ANY (lims) ORDER BY lim FOR NO KEY UPDATE;
  ids := ARRAY(SELECT id FROM dibs.tasks WHERE id = ANY (ids) AND state::int <> 5 AND expires <= t_now ORDER BY id FOR UPDATE SKIP LOCKED);
  PERFORM dibs.queue_discard(ids, 'expired', t_now);
  PERFORM dibs.queue_settle(v) FROM unnest(lims) v;
  RETURN cardinality(ids);
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_repair(p_ns text, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  lims  uuid[] := ARRAY(SELECT lim FROM dibs.queue_limits WHERE ns = p_ns AND checked < dibs.now_us() - 60000000 ORDER BY checked LIMIT p_most);
  owed  record;
  l     dibs.queue_limits;
  n     int;
  wrong int := 0;
BEGIN
  SELECT * INTO owed FROM dibs.queue_owed(p_ns, p_most);
  PERFORM dibs.queue_meet(p_ns, owed.ids);
  PERFORM FROM dibs.queue_limits WHERE lim = ANY (lims || owed.lims) ORDER BY lim FOR NO KEY UPDATE;
  PERFORM dibs.queue_pay(lims || owed.lims);
  FOR l IN SELECT * FROM dibs.queue_limits WHERE lim = ANY (lims) ORDER BY lim LOOP
    -- And what a transaction has freed meanwhile, which is still to be paid, as of the same instant.
    SELECT (SELECT count(*) FROM dibs.tasks WHERE lim = l.lim AND state = 5)
      + (SELECT coalesce(sum(freed), 0) FROM dibs.queue_debts WHERE ns = l.ns AND lim = l.lim) INTO n;
    UPDATE dibs.queue_limits SET checked = dibs.now_us(), running = n WHERE lim = l.lim;
    IF n <> l.running THEN
      wrong := wrong + 1;
    END IF;
    wrong := wrong + dibs.queue_settle(l.lim);
  END LOOP;
  RETURN wrong;
END $$;

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_prune(p_ns text, p_state smallint, p_before bigint, p_most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ours bigint[];
  old  tid[];
  ids  bigint[];
BEGIN
  ours := ARRAY(SELECT DISTINCT id FROM dibs.queue_names WHERE ns = p_ns AND NOT kind);
  IF p_state = 10 THEN
    old := ARRAY(SELECT t.ctid FROM unnest(ours) q(id),
      LATERAL (SELECT x.ctid FROM dibs.tasks_ended x WHERE x.state = 10 AND x.queue = q.id AND x.ended < p_before
        ORDER BY x.ended LIMIT p_most FOR UPDATE SKIP LOCKED) t LIMIT p_most);
  ELSE
    old := ARRAY(SELECT t.ctid FROM unnest(ours) q(id),
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

-- Replaced in version 8.
CREATE FUNCTION dibs.queue_act(p_ns text, p_act text, p_ids bigint[], p_queue bigint, p_priority int, p_due bigint, p_wait int, p_event text, p_words text,
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
  PERFORM dibs.queue_meet(p_ns, p_ids);
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
      ELSIF p_act = 'retry' AND t.state IN (6, 10, 11, 12, 13, 14) THEN
        IF old AND t.uniq IS NOT NULL THEN
          SELECT x.* INTO h FROM dibs.tasks x WHERE x.uniq = t.uniq AND x.held;
          IF h.state = 10 AND h.ended + h.hold <= t_now OR h.state NOT IN (5, 10) AND h.expires <= t_now THEN
            PERFORM FROM dibs.tasks x WHERE x.id = h.id FOR UPDATE NOWAIT;
          END IF;
          IF h.id IS NULL THEN
            NULL;
          ELSIF h.state NOT IN (5, 10) AND h.expires <= t_now THEN
            PERFORM dibs.queue_discard(ARRAY[h.id], 'expired', t_now);
            PERFORM dibs.queue_owe(p_ns, h.lim);
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
          answer := 1;
        END IF;
      ELSIF p_act = 'cancel' AND t.state = 5 THEN
        UPDATE dibs.tasks x SET stop = 'operator' WHERE x.id = this;
        answer := 2;
      ELSIF p_act = 'delete' AND t.state >= 10 THEN
        DELETE FROM dibs.tasks x WHERE x.id = this;
        DELETE FROM dibs.tasks_ended x WHERE x.id = this;
        DELETE FROM dibs.task_attempts x WHERE x.task = this;
        answer := 1;
      ELSIF t.state IN (5, 10, 11, 12, 13, 14) OR p_act NOT IN ('cancel', 'discard', 'promote', 'move', 'edit') THEN
        answer := 4;
      ELSIF p_act = 'cancel' THEN
        PERFORM dibs.queue_tally(t.queue, t.kind, 'canceled', 1);
        PERFORM dibs.queue_end(ARRAY[this], 13::smallint, 'operator', t_now);
        answer := 1;
      ELSIF p_act = 'discard' THEN
        PERFORM dibs.queue_discard(ARRAY[this], 'operator', t_now);
        answer := 1;
      ELSE
        IF p_act = 'promote' THEN
          t.place := (t.place >> 53) % 19 << 53 | this;
          t.due := least(t.due, t_now);
        ELSIF p_act = 'move' THEN
          t.queue := p_queue;
        ELSE
          IF p_priority IS NOT NULL THEN
            t.place := (CASE WHEN t.place >> 53 < 19 THEN 9 ELSE 28 END - p_priority)::bigint << 53 | this;
          END IF;
          t.due := coalesce(p_due, t.due);
        END IF;
        UPDATE dibs.tasks x SET place = t.place, queue = t.queue, due = t.due,
          state = CASE WHEN t.due > t_now THEN CASE WHEN t.state = 6 THEN 6 ELSE 0 END
                       WHEN t.lim IS NOT NULL THEN 3 WHEN t.suspect THEN 2 ELSE 1 END
        WHERE x.id = this;
        answer := 1;
      END IF;
      IF answer = 1 AND p_act NOT IN ('cancel', 'discard', 'delete') THEN
        PERFORM dibs.queue_tell(CASE WHEN p_act = 'move' THEN p_queue ELSE t.queue END, false);
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

-- Replaced by queue_say in version 9.
CREATE FUNCTION dibs.queue_set_limit(p_ns text, p_lim uuid, p_slots int, p_by text) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM dibs.queue_limits WHERE lim = p_lim FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM dibs.queue_resize(p_lim, p_slots, (SELECT last_value FROM dibs.task_ids), p_by);
  PERFORM dibs.queue_settle(p_lim);
  RETURN true;
END $$;

INSERT INTO dibs.migrations (version) VALUES (3);




SET statement_timeout = 0;
SET lock_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;


CREATE SCHEMA dibs;



CREATE FUNCTION dibs.identity() RETURNS text
    LANGUAGE plpgsql
    AS $$
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



CREATE FUNCTION dibs.now_us() RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT round(date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;



CREATE FUNCTION dibs.queue_add_limits(p_ns text, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  INSERT INTO dibs.queue_limits (lim, ns, key, slots)
  SELECT DISTINCT ON (t.lim) t.lim, p_ns, coalesce(dibs.queue_options(t.options) -> 'limit' ->> 'key', ''), t.slots
  FROM dibs.tasks t WHERE t.id = ANY (p_ids) AND t.lim IS NOT NULL AND (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = t.lim) IS NULL
  ORDER BY t.lim
  ON CONFLICT DO NOTHING;
END $$;



CREATE FUNCTION dibs.queue_admit(p_ns text, p_own boolean, p_wait integer, p_queue bigint[], p_kind bigint[], p_rank integer[], p_args text[], p_options text[], p_due bigint[], p_delay bigint[], p_expires bigint[], p_uniq uuid[], p_hold bigint[], p_again smallint[], p_longest bigint[], p_lim uuid[], p_slots integer[], p_contention smallint[]) RETURNS TABLE(i integer, answer smallint, task bigint, stands smallint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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


SET default_tablespace = '';



CREATE TABLE dibs.queue_rates (
    ns text NOT NULL COLLATE pg_catalog."C",
    k bigint NOT NULL,
    every bigint NOT NULL,
    burst bigint NOT NULL,
    busy bigint DEFAULT 0 NOT NULL,
    per bigint DEFAULT 0 NOT NULL,
    most integer DEFAULT 0 NOT NULL,
    taken_at bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    taken integer[] DEFAULT '{}'::integer[] NOT NULL
);



CREATE FUNCTION dibs.queue_allowed(r dibs.queue_rates, p_now bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
  SELECT greatest(least((r.burst - (greatest(r.busy, p_now) - p_now)) / r.every,
    r.most - (SELECT coalesce(sum(t.n), 0) FROM unnest(r.taken_at, r.taken) t(at, n) WHERE t.at > p_now - r.per)), 0)
$$;



CREATE FUNCTION dibs.queue_banned(p_ns text, p_queue bigint, p_now bigint, OUT closed boolean, OUT kinds bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  SELECT coalesce(bool_or(z.kind = ''), false), coalesce(array_agg(z.k) FILTER (WHERE z.kind <> ''), '{}') INTO closed, kinds
  FROM dibs.queue_pauses z WHERE z.ns = p_ns AND (z.until = 0 OR z.until > p_now) AND (z.queue = '' OR z.q = p_queue);
END $$;



CREATE FUNCTION dibs.queue_bound() RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT 1000 $$;



CREATE FUNCTION dibs.queue_dead(p_ns text) RETURNS SETOF integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  RETURN QUERY
    SELECT w.id FROM dibs.queue_workers w WHERE w.ns = p_ns AND w.unrescued
    UNION
    SELECT w.id FROM dibs.queue_workers w WHERE w.ns = p_ns AND w.gone = 0
      AND NOT EXISTS (SELECT FROM dibs.leases l WHERE l.key = w.key AND l.ns = w.ns AND l.owner = w.owner AND l.token = w.token AND l.expires > dibs.now_us())
    LIMIT dibs.queue_bound();
END $$;



CREATE FUNCTION dibs.queue_declare(p_ns text, p_lim uuid[], p_key text[], p_slots integer[], p_uniq uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_declared(p_lim uuid[], p_slots integer[], p_ids bigint[], p_taken bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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



CREATE FUNCTION dibs.queue_discard(p_ids bigint[], p_reason text, p_now bigint) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  PERFORM dibs.queue_tally(t.queue, t.kind, 'discarded:' || p_reason, t.n)
  FROM (SELECT queue, kind, count(*) AS n FROM dibs.tasks WHERE id = ANY (p_ids) GROUP BY queue, kind) t;
  PERFORM dibs.queue_end(p_ids, 12::smallint, p_reason, p_now);
END $$;



CREATE FUNCTION dibs.queue_end(p_ids bigint[], p_state smallint, p_reason text, p_now bigint) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_event(p_ns text, p_kind text, p_reason text) RETURNS void
    LANGUAGE sql
    AS $$ INSERT INTO dibs.events (ns, id, at, kind, reason) VALUES (p_ns, to_hex(dibs.now_us()) || '-' || gen_random_uuid(), dibs.now_us(), p_kind, p_reason) $$;



CREATE FUNCTION dibs.queue_expire(p_ns text, p_queues bigint[], p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_fetch(p_ns text, p_key bytea, p_owner text, p_token bigint, p_not_after bigint, p_queues bigint[], p_kinds bigint[], p_most integer, p_suspects boolean, p_crashers boolean, p_look integer, p_bytes bigint, p_used bigint) RETURNS TABLE(task bigint, token bigint, sort_key bigint, queue bigint, kind bigint, due bigint, enqueued bigint, expires bigint, attempts integer, granted integer, crashes integer, snoozes integer, suspect boolean, args text, options text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_finish(p_ns text, p_own boolean, p_key bytea, p_owner text, p_token bigint, p_ids bigint[], p_tokens bigint[], p_verdicts smallint[], p_delays bigint[], p_reasons text[], p_outcomes text[], p_started bigint[], p_ended bigint[], p_errors text[], p_skip boolean) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_free(p_ids bigint[]) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_heads(p_queue bigint, p_kinds bigint[], p_ranks integer[], p_lows bigint[], p_most integer[], p_need integer) RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  RETURN ARRAY(
    SELECT h.sort_key FROM (
      SELECT t.sort_key, l.most, row_number() OVER (PARTITION BY l.kind ORDER BY t.sort_key) AS n
      FROM unnest(p_kinds, p_ranks, p_lows, p_most) l(kind, rank, low, most),
        LATERAL (SELECT x.sort_key FROM dibs.tasks x WHERE x.queue = p_queue AND x.kind = l.kind AND x.state = 1
          AND x.sort_key >= l.low AND x.sort_key < (l.rank + 1)::bigint << 53 ORDER BY x.sort_key LIMIT least(p_need, l.most)) t
    ) h WHERE h.n <= h.most ORDER BY h.sort_key LIMIT p_need);
END $$;



CREATE FUNCTION dibs.queue_held(p_ns text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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



CREATE FUNCTION dibs.queue_insert(p_only integer, p_ids bigint[], p_now bigint, p_states smallint[], p_queue bigint[], p_kind bigint[], p_rank integer[], p_args text[], p_options text[], p_due bigint[], p_delay bigint[], p_expires bigint[], p_uniq uuid[], p_hold bigint[], p_lim uuid[], p_slots integer[], p_contention smallint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_leave(p_ns text, p_key bytea, p_owner text, p_token bigint, p_most integer) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_make_due(p_queue bigint, p_now bigint, p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_make_due_all(p_queues bigint[], p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_mark_gone(p_workers integer[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_newest(p_lim uuid, p_queue bigint, p_kinds bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
  few CONSTANT int := 100;
BEGIN
  IF (SELECT count(*) FROM (SELECT FROM dibs.tasks t WHERE t.contention IN (2, 3) AND t.state IN (3, 4) AND t.lim = p_lim LIMIT few) r) < few THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT max(r.id) FROM (SELECT t.* FROM dibs.tasks t WHERE t.contention IN (2, 3) AND t.state IN (3, 4) AND t.lim = p_lim ORDER BY t.id DESC LIMIT few) r
    WHERE r.state = 3 AND r.contention = 2 AND r.queue = p_queue AND r.kind = ANY (p_kinds) AND NOT r.suspect);
END $$;



CREATE FUNCTION dibs.queue_nominees(p_queue bigint, p_kinds bigint[], p_most integer) RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  RETURN ARRAY(SELECT w.id FROM (SELECT DISTINCT unnest(p_kinds) AS kind) k,
    LATERAL (SELECT t.id, t.sort_key FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = k.kind AND t.state = 3 AND t.sort_key >= 0
      ORDER BY t.sort_key LIMIT p_most) w
    ORDER BY w.sort_key LIMIT p_most);
END $$;



CREATE FUNCTION dibs.queue_note(p_ns text, p_lim uuid) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  INSERT INTO dibs.queue_notes SELECT p_ns, p_lim, 0
  WHERE EXISTS (SELECT FROM dibs.queue_limits WHERE lim = p_lim) OR EXISTS (SELECT FROM dibs.tasks WHERE state = 4 AND lim = p_lim);
END $$;



CREATE FUNCTION dibs.queue_noted(p_ns text, p_most integer, OUT lims uuid[], OUT ids bigint[]) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  lims := ARRAY(SELECT d.lim FROM (SELECT DISTINCT f.lim FROM (SELECT x.lim FROM dibs.queue_notes x WHERE x.ns = p_ns LIMIT dibs.queue_bound()) f) d
    WHERE coalesce((SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = d.lim), (SELECT t.lim FROM dibs.tasks t WHERE t.state = 4 AND t.lim = d.lim LIMIT 1)) IS NOT NULL
    LIMIT p_most);
  ids := ARRAY(SELECT (SELECT t.id FROM dibs.tasks t WHERE t.state = 4 AND t.lim = v LIMIT 1)
    FROM unnest(lims) v WHERE (SELECT x.lim FROM dibs.queue_limits x WHERE x.lim = v) IS NULL);
END $$;



CREATE FUNCTION dibs.queue_notify(p_queue bigint, p_own boolean) RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_now() RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN dibs.now_us() END $$;



CREATE FUNCTION dibs.queue_open(p_queue bigint, p_kinds bigint[], p_banned bigint[], p_rated bigint[], p_allowed integer[], p_most integer) RETURNS TABLE(kind bigint, rank integer, low bigint, rising boolean, most integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_operate(p_ns text, p_operation text, p_ids bigint[], p_queue bigint, p_priority integer, p_due bigint, p_wait integer, p_event text, p_words text, p_from bigint, p_states smallint[]) RETURNS TABLE(i integer, answer integer, other bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_options(p text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $$
BEGIN
  RETURN CASE WHEN jsonb_typeof(p::jsonb) = 'object' THEN p::jsonb END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN NULL;
END $$;



CREATE FUNCTION dibs.queue_prune(p_queues bigint[], p_state smallint, p_before bigint, p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_put_back(p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_raise(p_queue bigint, p_kind bigint, p_rank integer, p_gap bigint) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_repair(p_ns text, p_most integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_rescue(p_ns text, p_worker integer, p_most integer, OUT rescued integer, OUT crashed integer) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_resize(p_lim uuid, p_slots integer, p_declared bigint, p_by text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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



CREATE FUNCTION dibs.queue_say(p_lim uuid, p_of uuid, p_slots integer, p_by text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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



CREATE FUNCTION dibs.queue_settle(p_lim uuid) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_settle_noted(p_lims uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_start(p_ns text, p_key bytea, p_owner text, p_token bigint, p_ids bigint[], p_tokens bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_subqueues(p_lim uuid, p_state smallint) RETURNS TABLE(queue bigint, kind bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_suspect(p_queue bigint, p_kinds bigint[], p_crashers boolean) RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  RETURN (SELECT w.sort_key FROM (SELECT DISTINCT unnest(p_kinds) AS kind) k,
    LATERAL (SELECT t.sort_key FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = k.kind AND t.state = 2 AND (p_crashers OR t.crashes = 0)
      ORDER BY t.sort_key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w
    ORDER BY w.sort_key LIMIT 1);
END $$;



CREATE FUNCTION dibs.queue_take(p_ns text, p_kind bigint, p_n integer, p_now bigint) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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



CREATE FUNCTION dibs.queue_tally(p_queue bigint, p_kind bigint, p_name text, p_n bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO dibs.queue_counts (ns, minute, queue, kind, name, n)
  SELECT q.ns, dibs.now_us() / 60000000 * 60000000, q.name, k.name, p_name, p_n
  FROM (SELECT ns, name FROM dibs.queue_names WHERE id = p_queue LIMIT 1) q, (SELECT name FROM dibs.queue_names WHERE id = p_kind LIMIT 1) k;
END $$;



CREATE FUNCTION dibs.queue_trim(ids bigint[]) RETURNS void
    LANGUAGE sql
    AS $$
  DELETE FROM dibs.task_attempts a USING unnest(ids) q(id)
  WHERE a.task = q.id
    AND a.token = (SELECT x.token FROM dibs.task_attempts x WHERE x.task = q.id ORDER BY x.token OFFSET 10 LIMIT 1)
    AND EXISTS (SELECT FROM dibs.task_attempts x WHERE x.task = q.id ORDER BY x.token OFFSET 99 LIMIT 1);
$$;



CREATE FUNCTION dibs.queue_worker(p_ns text, p_key bytea, p_owner text, p_token bigint) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
  RETURN (SELECT w.id FROM dibs.leases l
    JOIN dibs.queue_workers w ON w.key = l.key AND w.owner = l.owner AND w.token = l.token AND w.ns = l.ns AND w.gone = 0
    WHERE l.key = p_key AND l.ns = p_ns AND l.owner = p_owner AND l.token = p_token AND l.expires > dibs.now_us());
END $$;



CREATE FUNCTION dibs.topic(ns text, key bytea) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT encode(sha256(convert_to(ns, 'UTF8') || '\x2f'::bytea || key), 'hex') $$;



CREATE TABLE dibs.tasks (
    id bigint NOT NULL,
    sort_key bigint NOT NULL,
    queue bigint NOT NULL,
    kind bigint NOT NULL,
    enqueued bigint NOT NULL,
    due bigint NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    fetched bigint,
    ended bigint,
    expires bigint,
    hold bigint,
    uniq uuid,
    lim uuid,
    slots integer,
    worker integer,
    attempts integer DEFAULT 0 NOT NULL,
    granted integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    snoozes integer DEFAULT 0 NOT NULL,
    state smallint NOT NULL,
    contention smallint,
    held boolean DEFAULT false NOT NULL,
    suspect boolean DEFAULT false NOT NULL,
    begun boolean DEFAULT false NOT NULL,
    args text NOT NULL,
    options text,
    stop text,
    reason text
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.5');



CREATE TABLE dibs.tasks_ended (
    id bigint NOT NULL,
    sort_key bigint NOT NULL,
    queue bigint NOT NULL,
    kind bigint NOT NULL,
    enqueued bigint NOT NULL,
    due bigint NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    fetched bigint,
    ended bigint,
    expires bigint,
    hold bigint,
    uniq uuid,
    lim uuid,
    slots integer,
    worker integer,
    attempts integer DEFAULT 0 NOT NULL,
    granted integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    snoozes integer DEFAULT 0 NOT NULL,
    state smallint NOT NULL,
    contention smallint,
    held boolean DEFAULT false NOT NULL,
    suspect boolean DEFAULT false NOT NULL,
    begun boolean DEFAULT false NOT NULL,
    args text NOT NULL,
    options text,
    stop text,
    reason text
);



CREATE VIEW dibs.all_tasks AS
 SELECT tasks.id,
    tasks.sort_key,
    tasks.queue,
    tasks.kind,
    tasks.enqueued,
    tasks.due,
    tasks.token,
    tasks.fetched,
    tasks.ended,
    tasks.expires,
    tasks.hold,
    tasks.uniq,
    tasks.lim,
    tasks.slots,
    tasks.worker,
    tasks.attempts,
    tasks.granted,
    tasks.crashes,
    tasks.snoozes,
    tasks.state,
    tasks.contention,
    tasks.held,
    tasks.suspect,
    tasks.begun,
    tasks.args,
    tasks.options,
    tasks.stop,
    tasks.reason
   FROM dibs.tasks
UNION ALL
 SELECT tasks_ended.id,
    tasks_ended.sort_key,
    tasks_ended.queue,
    tasks_ended.kind,
    tasks_ended.enqueued,
    tasks_ended.due,
    tasks_ended.token,
    tasks_ended.fetched,
    tasks_ended.ended,
    tasks_ended.expires,
    tasks_ended.hold,
    tasks_ended.uniq,
    tasks_ended.lim,
    tasks_ended.slots,
    tasks_ended.worker,
    tasks_ended.attempts,
    tasks_ended.granted,
    tasks_ended.crashes,
    tasks_ended.snoozes,
    tasks_ended.state,
    tasks_ended.contention,
    tasks_ended.held,
    tasks_ended.suspect,
    tasks_ended.begun,
    tasks_ended.args,
    tasks_ended.options,
    tasks_ended.stop,
    tasks_ended.reason
   FROM dibs.tasks_ended;



CREATE TABLE dibs.events (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    kind text NOT NULL,
    key bytea DEFAULT '\x'::bytea NOT NULL,
    job bytea DEFAULT '\x'::bytea NOT NULL,
    tick bigint DEFAULT 0 NOT NULL,
    run_id text DEFAULT ''::text NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL
);



CREATE TABLE dibs.jobs (
    ns text NOT NULL COLLATE pg_catalog."C",
    name bytea NOT NULL,
    definition text NOT NULL,
    generation bigint NOT NULL,
    since bigint NOT NULL,
    mark bigint NOT NULL,
    removed bigint DEFAULT 0 NOT NULL,
    paused_since bigint DEFAULT 0 NOT NULL,
    paused_until bigint DEFAULT 0 NOT NULL,
    paused_by text DEFAULT ''::text NOT NULL,
    paused_why text DEFAULT ''::text NOT NULL,
    paused_resumed boolean DEFAULT false NOT NULL,
    past text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='70');



CREATE TABLE dibs.leases (
    ns text NOT NULL COLLATE pg_catalog."C",
    key bytea NOT NULL,
    owner text DEFAULT ''::text NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    holder text DEFAULT ''::text NOT NULL,
    ttl bigint DEFAULT 0 NOT NULL,
    acquired bigint DEFAULT 0 NOT NULL,
    renewed bigint DEFAULT 0 NOT NULL,
    expires bigint DEFAULT 0 NOT NULL,
    busy_until bigint DEFAULT 0 NOT NULL,
    wanted text DEFAULT ''::text NOT NULL,
    broken text DEFAULT ''::text NOT NULL,
    watched_until bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_threshold='1000');



CREATE TABLE dibs.migrations (
    version integer NOT NULL,
    oldest integer NOT NULL,
    applied timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);



CREATE TABLE dibs.namespaces (
    ns text NOT NULL COLLATE pg_catalog."C",
    installation text NOT NULL,
    identity text NOT NULL,
    epoch bigint NOT NULL,
    hold_until bigint NOT NULL,
    max_ttl bigint NOT NULL
);



CREATE TABLE dibs.outputs (
    ns text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    output bytea NOT NULL
);



CREATE TABLE dibs.processes (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    seen bigint NOT NULL,
    record bytea NOT NULL
);



CREATE TABLE dibs.pruned (
    ns text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    at bigint DEFAULT 0 NOT NULL,
    name bytea DEFAULT '\x'::bytea NOT NULL
);



CREATE TABLE dibs.queue_bands (
    queue bigint NOT NULL,
    kind bigint NOT NULL,
    rank integer NOT NULL,
    floor bigint NOT NULL,
    candidate bigint,
    x bigint
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_threshold='1000');



CREATE TABLE dibs.queue_counts (
    ns text NOT NULL COLLATE pg_catalog."C",
    minute bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    n bigint NOT NULL
);



CREATE TABLE dibs.queue_limits (
    lim uuid NOT NULL,
    ns text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL,
    slots integer NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    declared bigint DEFAULT 0 NOT NULL,
    checked bigint DEFAULT 0 NOT NULL,
    said integer,
    since bigint DEFAULT dibs.now_us() NOT NULL,
    heard bigint,
    said_of uuid,
    said_by text DEFAULT ''::text NOT NULL,
    said_at bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.1', autovacuum_vacuum_threshold='1000');



CREATE TABLE dibs.queue_marks (
    queue bigint NOT NULL,
    kind bigint NOT NULL,
    rank integer NOT NULL,
    sort_key bigint NOT NULL
);



CREATE TABLE dibs.queue_names (
    id bigint NOT NULL,
    ns text NOT NULL COLLATE pg_catalog."C",
    kind boolean NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);



CREATE TABLE dibs.queue_notes (
    ns text NOT NULL COLLATE pg_catalog."C",
    lim uuid NOT NULL,
    freed integer NOT NULL
);



CREATE TABLE dibs.queue_pauses (
    ns text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    q bigint,
    k bigint,
    since bigint NOT NULL,
    until bigint NOT NULL,
    by text NOT NULL,
    why text NOT NULL
);



CREATE TABLE dibs.queue_watched (
    queue bigint NOT NULL,
    watched bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');



CREATE TABLE dibs.queue_workers (
    id integer NOT NULL,
    ns text NOT NULL COLLATE pg_catalog."C",
    key bytea NOT NULL,
    owner text NOT NULL,
    token bigint NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid bigint DEFAULT 0 NOT NULL,
    queues text[] DEFAULT '{}'::text[] NOT NULL,
    kinds text[] DEFAULT '{}'::text[] NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    since bigint DEFAULT 0 NOT NULL,
    gone bigint DEFAULT 0 NOT NULL,
    unrescued boolean DEFAULT false NOT NULL
);



ALTER TABLE dibs.queue_workers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dibs.queue_workers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE dibs.runs (
    ns text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    job bytea NOT NULL,
    tick bigint DEFAULT 0 NOT NULL,
    owner text NOT NULL,
    token bigint NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid bigint DEFAULT 0 NOT NULL,
    command text DEFAULT ''::text NOT NULL,
    outcome text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    inferred boolean DEFAULT false NOT NULL,
    started bigint NOT NULL,
    ended bigint DEFAULT 0 NOT NULL,
    attempts text DEFAULT ''::text NOT NULL,
    cause text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='80');



CREATE TABLE dibs.task_attempts (
    task bigint NOT NULL,
    token bigint NOT NULL,
    worker integer NOT NULL,
    n integer NOT NULL,
    outcome text NOT NULL,
    started bigint NOT NULL,
    ended bigint NOT NULL,
    error text NOT NULL
);



CREATE SEQUENCE dibs.task_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;



CREATE TABLE dibs.ticks (
    ns text NOT NULL COLLATE pg_catalog."C",
    job bytea NOT NULL,
    at bigint NOT NULL,
    through bigint DEFAULT 0 NOT NULL,
    count integer DEFAULT 0 NOT NULL,
    state text NOT NULL,
    lease_key bytea DEFAULT '\x'::bytea NOT NULL,
    lease_owner text DEFAULT ''::text NOT NULL,
    lease_token bigint DEFAULT 0 NOT NULL,
    claimant text DEFAULT ''::text NOT NULL,
    run_id text DEFAULT ''::text NOT NULL,
    outcome text DEFAULT ''::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    inferred boolean DEFAULT false NOT NULL,
    reruns integer DEFAULT 0 NOT NULL,
    claimed bigint DEFAULT 0 NOT NULL,
    started bigint DEFAULT 0 NOT NULL,
    ended bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');



CREATE VIEW dibs.tick_rows AS
 SELECT t.ns,
    t.job,
    t.at,
    t.through,
    t.count,
    t.state,
    t.lease_key,
    t.lease_owner,
    t.lease_token,
    t.claimant,
    t.run_id,
    t.outcome,
    t.reason,
    t.inferred,
    t.reruns,
    t.claimed,
    t.started,
    t.ended,
    (EXISTS ( SELECT
           FROM dibs.leases l
          WHERE ((l.ns = t.ns) AND (l.key = t.lease_key) AND (l.owner = t.lease_owner) AND (l.token = t.lease_token) AND (l.expires > dibs.now_us())))) AS live
   FROM dibs.ticks t;



INSERT INTO dibs.events VALUES ('shop', '01a22281-3877-713a-a3df-a66fc8ea5720', 1795875223671632, 'clock-step', '\x', '\x', 0, '', 'web-1', 'by 3 s');
INSERT INTO dibs.events VALUES ('shop', '01a22281-3877-713e-9799-017825663d51', 1795875223671993, 'lease-broken', '\x62726f6b656e', '\x73686f702f7265706f7274', 1795838400000000, '01a22281-3860-7209-a4ff-32087d0edb54', 'web-1', 'by ann');
INSERT INTO dibs.events VALUES ('shop', '66156c8c56187-74f962f3-cc24-4070-9c95-24d983b5f68d', 1795875223724463, 'task-cancel', '\x', '\x', 0, '', '', '1 task: 7 by ann: a test');
INSERT INTO dibs.events VALUES ('shop', '66156c8c56931-551f596f-3c5f-421c-b419-ecd1e1e03ecb', 1795875223726413, 'task-discard', '\x', '\x', 0, '', '', '1 task: 8 by ann: a test');
INSERT INTO dibs.events VALUES ('shop', '66156c8c57292-44527744-6326-424d-a8a6-3c3b21d00755', 1795875223728817, 'task-promote', '\x', '\x', 0, '', '', '1 task: 9 by ann: a test');
INSERT INTO dibs.events VALUES ('shop', '66156c8c5d8fd-bd755a8e-711c-48f1-a6ec-c6c6ecc38653', 1795875223755055, 'queue-paused', '\x', '\x', 0, '', '', 'queue closed by ann: stocktaking');
INSERT INTO dibs.events VALUES ('shop', '66156c8c675e7-bf5724e4-a70f-4c3d-a857-e69a51c90a28', 1795875223795212, 'limit-changed', '\x', '\x', 0, '', '', '"printer" from 1 to 1 by ann');



INSERT INTO dibs.jobs VALUES ('shop', '\x73686f702f676f6e65', '{}', 1, 1795838400000000, 1795838399999999, 1795875223638116, 0, 0, '', '', false, '');
INSERT INTO dibs.jobs VALUES ('shop', '\x73686f702f706175736564', '{}', 1, 1795838400000000, 1795838399999999, 0, 1795875223639208, 0, 'ann', 'stocktaking', false, '');
INSERT INTO dibs.jobs VALUES ('shop', '\x73686f702f7265706f7274', '{"schedules":["@hourly"]}', 2, 1795834800000000, 1795856400000000, 0, 0, 0, '', '', false, '');



INSERT INTO dibs.leases VALUES ('shop', '\x72656c6561736564', '22ffdc3faa545493907510659db34bd0', 1795875223623295, '{"id":"22ffdc3faa545493907510659db34bd0","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223623295, 1795875223623295, 0, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x6465706c6f79', '42dd664d3a58207614b15ede73873400', 1795875223625911, '{"id":"42dd664d3a58207614b15ede73873400","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223625911, 1795875223625911, 1795875228625911, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x62726f6b656e', 'bab0542cee442f1534f79f81cce948d2', 1795875223627127, '{"id":"bab0542cee442f1534f79f81cce948d2","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223627127, 1795875223627127, 1795875228627127, 0, '', '{"at": "2026-11-28T14:13:43.632990Z", "by": "ann", "why": "it hangs"}', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x7365727665722f7765622d31', '58057bf38a50d6321a0a81c22d2b7511', 1795875223640701, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223640701, 1795875223640701, 1795875228640701, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x73686f702f7265706f7274', 'e608d763d5003336504da6e3943ccedb', 1795875223641750, '{"id":"e608d763d5003336504da6e3943ccedb","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223641750, 1795875223641750, 1795875228641750, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x6f6e63651f6639336431333030313639373139343161396165393530366162356366343533', 'ed714aeaca48ceb8c74b2f83b9baacdd', 1795875223673316, '{"id":"ed714aeaca48ceb8c74b2f83b9baacdd","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223673316, 1795875223673316, 1795875228673316, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x6f6e63651f6565303361396366373031616263653630643337646463663938326238396563', '0ca8c2e7179b3671cbdd99518fb3a479', 1795875223730792, '{"id":"0ca8c2e7179b3671cbdd99518fb3a479","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223730792, 1795875223730792, 1795875228730792, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x6f6e63651f3031333030326164356436643135623363373237343333303038623261633334', 'bb8092bd19b6cf330b037c006cc97dc2', 1795875223738372, '{"id":"bb8092bd19b6cf330b037c006cc97dc2","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223738372, 1795875223738372, 1795875228738372, 0, '', '', 0);
INSERT INTO dibs.leases VALUES ('shop', '\x6f6e63651f6135386164343262326166653434613361666666623132626231316436373863', 'e29a1f4d18744d2f88a0d61e4ff300fb', 1795875223743685, '{"id":"e29a1f4d18744d2f88a0d61e4ff300fb","host":"web-1","pid":42,"command":"php report.php"}', 5000000, 1795875223743685, 1795875223743685, 1795875228743685, 0, '', '', 0);



INSERT INTO dibs.migrations VALUES (1, 1, '2026-11-28 14:13:43.610403+00');



INSERT INTO dibs.namespaces VALUES ('shop', '155faf9f-d23f-4453-ab64-281e1302dc83', '7713225083170908897/00000001', 1795875223615329, 0, 15000000);



INSERT INTO dibs.outputs VALUES ('shop', '01a22281-3860-7209-a4ff-32087d0edb54', '\x3432207265706f7274730a');









INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -4765929438279856542, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -7243640757940713275, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 4173149108423603544, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 6814521341795523304, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 81618943253165899, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 513464988417316366, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -5624043709677704778, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 8659315522658142944, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -1702406647233248276, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -5624043709677704778, 9, 81064793292668928, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 6922346173055426631, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 1842406829382511699, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 8121281802668289014, 19, 171136785840078848, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -3321205880933613439, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 3576277168888275864, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -3866358466848341269, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, 3777279871018994494, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -8397548292560723592, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (5904985572738533645, 3576277168888275864, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -8132471474028102089, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -4331873437058122943, 28, 252201579132747776, NULL, NULL);
INSERT INTO dibs.queue_bands VALUES (-1490493505405132009, -8504270171182864836, 28, 252201579132747776, NULL, NULL);



INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'canceled', 'canceled', 1);
INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'discarded', 'discarded:operator', 1);
INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'poison', 'rescued', 1);
INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'poison', 'crashed', 1);
INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'suspect', 'rescued', 1);
INSERT INTO dibs.queue_counts VALUES ('shop', 1795875180000000, 'mail', 'plain', 'enqueued', 2);



INSERT INTO dibs.queue_limits VALUES ('43b79046-aa31-e9a2-9c46-ce24656b7a34', 'shop', 'printer', 1, 1, 1795875223785260, 9223372036854775807, 0, 1, 1795875223760769, 0, 'adb4efe9-6361-87f0-acc3-397d61d18c75', 'ann', 1795875223794615);
INSERT INTO dibs.queue_limits VALUES ('f687449e-0da3-333f-525d-ad0272e41cbc', 'shop', 'scanner', 2, 0, 0, 0, 0, NULL, 1795875223795991, NULL, NULL, '', 0);






INSERT INTO dibs.queue_names VALUES (-1490493505405132009, 'shop', false, 'mail');
INSERT INTO dibs.queue_names VALUES (-4765929438279856542, 'shop', true, 'good');
INSERT INTO dibs.queue_names VALUES (-7243640757940713275, 'shop', true, 'bad');
INSERT INTO dibs.queue_names VALUES (4173149108423603544, 'shop', true, 'again');
INSERT INTO dibs.queue_names VALUES (6814521341795523304, 'shop', true, 'postponed');
INSERT INTO dibs.queue_names VALUES (81618943253165899, 'shop', true, 'dropped');
INSERT INTO dibs.queue_names VALUES (513464988417316366, 'shop', true, 'window');
INSERT INTO dibs.queue_names VALUES (8659315522658142944, 'shop', true, 'canceled');
INSERT INTO dibs.queue_names VALUES (-1702406647233248276, 'shop', true, 'discarded');
INSERT INTO dibs.queue_names VALUES (-5624043709677704778, 'shop', true, 'front');
INSERT INTO dibs.queue_names VALUES (6922346173055426631, 'shop', true, 'poison');
INSERT INTO dibs.queue_names VALUES (1842406829382511699, 'shop', true, 'suspect');
INSERT INTO dibs.queue_names VALUES (-8397548292560723592, 'shop', true, 'expiring');
INSERT INTO dibs.queue_names VALUES (8121281802668289014, 'shop', true, 'urgent');
INSERT INTO dibs.queue_names VALUES (-3321205880933613439, 'shop', true, 'unique');
INSERT INTO dibs.queue_names VALUES (3576277168888275864, 'shop', true, 'plain');
INSERT INTO dibs.queue_names VALUES (-3866358466848341269, 'shop', true, 'rated');
INSERT INTO dibs.queue_names VALUES (3777279871018994494, 'shop', true, 'later');
INSERT INTO dibs.queue_names VALUES (5904985572738533645, 'shop', false, 'closed');
INSERT INTO dibs.queue_names VALUES (-8132471474028102089, 'shop', true, 'limited');
INSERT INTO dibs.queue_names VALUES (-4331873437058122943, 'shop', true, 'unsaid');
INSERT INTO dibs.queue_names VALUES (-8504270171182864836, 'shop', true, 'running');






INSERT INTO dibs.queue_pauses VALUES ('shop', 'closed', '', 5904985572738533645, NULL, 1795875223754268, 0, 'ann', 'stocktaking');



INSERT INTO dibs.queue_rates VALUES ('shop', -3866358466848341269, 200000, 1000000, 0, 1062500, 5, '{}', '{}');






INSERT INTO dibs.queue_workers OVERRIDING SYSTEM VALUE VALUES (1, 'shop', '\x6f6e63651f6639336431333030313639373139343161396165393530366162356366343533', 'ed714aeaca48ceb8c74b2f83b9baacdd', 1795875223673316, 'web-1', 7, '{mail}', '{}', 10, 1795875223674346, 0, false);
INSERT INTO dibs.queue_workers OVERRIDING SYSTEM VALUE VALUES (2, 'shop', '\x6f6e63651f6565303361396366373031616263653630643337646463663938326238396563', '0ca8c2e7179b3671cbdd99518fb3a479', 1795875223730792, 'web-2', 7, '{mail}', '{}', 10, 1795875223731166, 1795875223733076, false);
INSERT INTO dibs.queue_workers OVERRIDING SYSTEM VALUE VALUES (3, 'shop', '\x6f6e63651f3031333030326164356436643135623363373237343333303038623261633334', 'bb8092bd19b6cf330b037c006cc97dc2', 1795875223738372, 'web-2', 7, '{mail}', '{}', 10, 1795875223738692, 1795875223741795, false);
INSERT INTO dibs.queue_workers OVERRIDING SYSTEM VALUE VALUES (4, 'shop', '\x6f6e63651f6135386164343262326166653434613361666666623132626231316436373863', 'e29a1f4d18744d2f88a0d61e4ff300fb', 1795875223743685, 'web-2', 7, '{mail}', '{}', 10, 1795875223743920, 1795875223745123, false);



INSERT INTO dibs.runs VALUES ('shop', '01a22281-3860-7209-a4ff-32087d0edb54', '\x73686f702f7265706f7274', 1795838400000000, 'e608d763d5003336504da6e3943ccedb', 1795875223641750, 'web-1', 42, 'php report.php', 'succeeded', '', false, 1795875223652347, 1795875223653347, '[{"n":1,"outcome":"","started":"2026-11-28T14:13:43.652347Z","ended":"2026-11-28T14:13:43.653347Z"}]', '');
INSERT INTO dibs.runs VALUES ('shop', '01a22281-3866-7aaf-bc53-e085bcd622d2', '\x73686f702f7265706f7274', 1795842000000000, 'e608d763d5003336504da6e3943ccedb', 1795875223641750, 'web-1', 42, 'php report.php', 'failed', 'exit status 1', false, 1795875223655163, 1795875223656163, '[{"n":1,"outcome":"","started":"2026-11-28T14:13:43.655163Z","ended":"2026-11-28T14:13:43.656163Z"}]', '');
INSERT INTO dibs.runs VALUES ('shop', '01a22281-3874-7c91-aa46-9110e3393867', '\x73686f702f7265706f7274', 1795860000000000, 'e608d763d5003336504da6e3943ccedb', 1795875223641750, 'web-1', 42, 'php report.php', '', '', false, 1795875223669210, 0, '', '');
INSERT INTO dibs.runs VALUES ('shop', '01a22281-3876-73d2-b090-e8442c6eaf3d', '\x73686f702f6f6e6365', 0, 'c71facc0d78d7a44932432185e568edf', 7, 'web-2', 0, '', 'succeeded', '', false, 1795842000000000, 1795845600000000, '', '{"by":"ann","why":"a test"}');



INSERT INTO dibs.task_attempts VALUES (2, 1795875223696358, 1, 1, 'failed', 1795875223698006, 1795875223698006, 'no such address');
INSERT INTO dibs.task_attempts VALUES (3, 1795875223703352, 1, 1, 'failed', 1795875223705007, 1795875223705007, 'timeout');
INSERT INTO dibs.task_attempts VALUES (4, 1795875223707345, 1, 1, 'snoozed', 1795875223708757, 1795875223708757, '');
INSERT INTO dibs.task_attempts VALUES (10, 1795875223738997, 3, 1, 'crashed', 1795875223738997, 1795875223741917, '');



INSERT INTO dibs.tasks VALUES (20, 252201579132747796, -1490493505405132009, -8132471474028102089, 1795875223762995, 1795875223762995, 1795875223785260, 1795875223785260, NULL, NULL, NULL, NULL, '43b79046-aa31-e9a2-9c46-ce24656b7a34', 1, 1, 0, 0, 0, 0, 5, NULL, false, false, true, '{"of":"limited"}', '{"limit":{"key":"printer","shared":true}}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (23, 252201579132747799, -1490493505405132009, -4331873437058122943, 1795875223796179, 1795875223796179, 0, NULL, NULL, NULL, NULL, NULL, 'f687449e-0da3-333f-525d-ad0272e41cbc', 2, NULL, 0, 0, 0, 0, 3, NULL, false, false, false, '{"of":"limited"}', '{"limit":{"key":"scanner","max":2}}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (3, 252201579132747779, -1490493505405132009, 4173149108423603544, 1795875223702924, 8107395223705318, 1795875223703352, 1795875223703352, NULL, NULL, NULL, NULL, NULL, NULL, 1, 1, 0, 0, 0, 6, NULL, false, false, true, '{"of":"again"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (4, 252201579132747780, -1490493505405132009, 6814521341795523304, 1795875223706997, 8107395223709086, 1795875223707345, 1795875223707345, NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 0, 0, 1, 6, NULL, false, false, true, '{"of":"postponed"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (24, 252201579132747800, -1490493505405132009, -8504270171182864836, 1795875223798124, 1795875223798124, 1795875223802137, 1795875223802137, NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 0, 0, 0, 5, NULL, false, false, true, '{"of":"running"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (6, 252201579132747782, -1490493505405132009, 513464988417316366, 1795875223714455, 1795875223714455, 1795875223715016, 1795875223715016, 1795875223716702, NULL, 6311520000000000, 'c12513ae-3536-f766-d34a-885fe2eaf4f0', NULL, NULL, 1, 1, 0, 0, 0, 10, NULL, true, false, true, '{"of":"window"}', '{"unique":{"key":"w","window":6311520000000000000}}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (9, 81064793292668937, -1490493505405132009, -5624043709677704778, 1795875223718427, 1795875223718427, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"front"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (11, 252201579132747787, -1490493505405132009, 1842406829382511699, 1795875223729528, 1795875223729528, 1795875223744145, 1795875223744144, NULL, NULL, NULL, NULL, NULL, NULL, 4, 0, 0, 0, 0, 2, NULL, false, true, false, '{"of":"suspect"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (15, 252201579132747791, -1490493505405132009, -3321205880933613439, 1795875223747475, 1795875223747475, 0, NULL, NULL, NULL, 0, '28394fbb-d6cf-6bd7-ebb2-930bdf11128a', NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, true, false, false, '{"of":"unique"}', '{"unique":{"key":"welcome","shared":true}}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (12, 252201579132747788, -1490493505405132009, 3777279871018994494, 1795875223747475, 8107395223746136, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, false, false, false, '{"of":"later"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (13, 252201579132747789, -1490493505405132009, -8397548292560723592, 1795875223747475, 1795875223747475, 0, NULL, NULL, 8107395223746136, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"expiring"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (14, 171136785840078862, -1490493505405132009, 8121281802668289014, 1795875223747475, 1795875223747475, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"urgent"}', '{"tags":["vip"]}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (16, 252201579132747792, -1490493505405132009, 3576277168888275864, 1795875223747475, 1795875223747475, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"plain"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (17, 252201579132747793, -1490493505405132009, 3576277168888275864, 1795875223747475, 1795875223747475, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"plain"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (18, 252201579132747794, -1490493505405132009, -3866358466848341269, 1795875223747475, 1795875223747475, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"rated"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (19, 252201579132747795, 5904985572738533645, 3576277168888275864, 1795875223752314, 1795875223752314, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 1, NULL, false, false, false, '{"of":"plain"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks VALUES (21, 252201579132747797, -1490493505405132009, -8132471474028102089, 1795875223762995, 1795875223762995, 0, NULL, NULL, NULL, NULL, NULL, '43b79046-aa31-e9a2-9c46-ce24656b7a34', 1, NULL, 0, 0, 0, 0, 4, NULL, false, false, false, '{"of":"limited"}', '{"limit":{"key":"printer","shared":true}}', NULL, NULL);
INSERT INTO dibs.tasks VALUES (22, 252201579132747798, -1490493505405132009, -8132471474028102089, 1795875223762995, 1795875223762995, 0, NULL, NULL, NULL, NULL, NULL, '43b79046-aa31-e9a2-9c46-ce24656b7a34', 1, NULL, 0, 0, 0, 0, 4, NULL, false, false, false, '{"of":"limited"}', '{"limit":{"key":"printer","shared":true}}', NULL, NULL);



INSERT INTO dibs.tasks_ended VALUES (1, 252201579132747777, -1490493505405132009, -4765929438279856542, 1795875223677014, 1795875223677014, 1795875223680202, 1795875223680202, 1795875223692980, NULL, NULL, NULL, NULL, NULL, 1, 1, 0, 0, 0, 10, NULL, false, false, true, '{"of":"good"}', NULL, NULL, NULL);
INSERT INTO dibs.tasks_ended VALUES (2, 252201579132747778, -1490493505405132009, -7243640757940713275, 1795875223695950, 1795875223695950, 1795875223696358, 1795875223696358, 1795875223698709, NULL, NULL, NULL, NULL, NULL, 1, 1, 0, 0, 0, 11, NULL, false, false, true, '{"of":"bad"}', NULL, NULL, 'attempts');
INSERT INTO dibs.tasks_ended VALUES (5, 252201579132747781, -1490493505405132009, 81618943253165899, 1795875223710382, 1795875223710382, 1795875223710719, 1795875223710719, 1795875223712400, NULL, NULL, NULL, NULL, NULL, 1, 0, 0, 0, 0, 12, NULL, false, false, true, '{"of":"dropped"}', NULL, NULL, 'handler');
INSERT INTO dibs.tasks_ended VALUES (7, 252201579132747783, -1490493505405132009, 8659315522658142944, 1795875223718427, 1795875223718427, 0, NULL, 1795875223722214, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 13, NULL, false, false, false, '{"of":"canceled"}', NULL, NULL, 'operator');
INSERT INTO dibs.tasks_ended VALUES (8, 252201579132747784, -1490493505405132009, -1702406647233248276, 1795875223718427, 1795875223718427, 0, NULL, 1795875223725582, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 12, NULL, false, false, false, '{"of":"discarded"}', NULL, NULL, 'operator');
INSERT INTO dibs.tasks_ended VALUES (10, 252201579132747786, -1490493505405132009, 6922346173055426631, 1795875223729528, 1795875223729528, 1795875223738998, 1795875223738997, 1795875223741917, NULL, NULL, NULL, NULL, NULL, 3, 0, 0, 1, 0, 14, NULL, false, true, false, '{"of":"poison"}', '{"max_crashes":1}', NULL, NULL);



INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795838400000000, 0, 0, 'closed', '\x73686f702f7265706f7274', 'e608d763d5003336504da6e3943ccedb', 1795875223641750, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42}', '01a22281-3860-7209-a4ff-32087d0edb54', 'succeeded', '', false, 0, 1795875223645486, 1795875223652347, 1795875223653347);
INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795842000000000, 0, 0, 'closed', '\x73686f702f7265706f7274', 'e608d763d5003336504da6e3943ccedb', 1795875223641750, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42}', '01a22281-3866-7aaf-bc53-e085bcd622d2', 'failed', 'exit status 1', false, 0, 1795875223654271, 1795875223655163, 1795875223656163);
INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795845600000000, 0, 0, 'closed', '\x7365727665722f7765622d31', '58057bf38a50d6321a0a81c22d2b7511', 1795875223640701, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42}', '', 'skipped', 'overlap', false, 0, 1795875223663510, 0, 1795875223663510);
INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795849200000000, 1795856400000000, 3, 'closed', '\x', '', 0, '', '', 'missed', 'nobody was there', false, 0, 0, 0, 1795875223666419);
INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795860000000000, 0, 0, 'started', '\x73686f702f7265706f7274', 'e608d763d5003336504da6e3943ccedb', 1795875223641750, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42}', '01a22281-3874-7c91-aa46-9110e3393867', '', '', false, 0, 1795875223668326, 1795875223669210, 0);
INSERT INTO dibs.ticks VALUES ('shop', '\x73686f702f7265706f7274', 1795863600000000, 0, 0, 'claimed', '\x7365727665722f7765622d31', '58057bf38a50d6321a0a81c22d2b7511', 1795875223640701, '{"id":"58057bf38a50d6321a0a81c22d2b7511","host":"web-1","pid":42}', '', '', '', false, 0, 1795875223669950, 0, 0);



SELECT pg_catalog.setval('dibs.queue_workers_id_seq', 4, true);



SELECT pg_catalog.setval('dibs.task_ids', 24, true);



ALTER TABLE ONLY dibs.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id, ns);



ALTER TABLE ONLY dibs.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (name, ns);



ALTER TABLE ONLY dibs.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (key, ns);



ALTER TABLE ONLY dibs.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);



ALTER TABLE ONLY dibs.namespaces
    ADD CONSTRAINT namespaces_pkey PRIMARY KEY (ns);



ALTER TABLE ONLY dibs.outputs
    ADD CONSTRAINT outputs_pkey PRIMARY KEY (run_id, ns);



ALTER TABLE ONLY dibs.processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (id, ns);



ALTER TABLE ONLY dibs.pruned
    ADD CONSTRAINT pruned_pkey PRIMARY KEY (ns, kind);



ALTER TABLE ONLY dibs.queue_limits
    ADD CONSTRAINT queue_limits_pkey PRIMARY KEY (lim);



ALTER TABLE ONLY dibs.queue_pauses
    ADD CONSTRAINT queue_pauses_pkey PRIMARY KEY (ns, queue, kind);



ALTER TABLE ONLY dibs.queue_rates
    ADD CONSTRAINT queue_rates_pkey PRIMARY KEY (ns, k);



ALTER TABLE ONLY dibs.queue_watched
    ADD CONSTRAINT queue_watched_pkey PRIMARY KEY (queue);



ALTER TABLE ONLY dibs.queue_workers
    ADD CONSTRAINT queue_workers_key_owner_token_ns_key UNIQUE (key, owner, token, ns);



ALTER TABLE ONLY dibs.queue_workers
    ADD CONSTRAINT queue_workers_pkey PRIMARY KEY (id);



ALTER TABLE ONLY dibs.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (run_id, ns);



ALTER TABLE ONLY dibs.task_attempts
    ADD CONSTRAINT task_attempts_pkey PRIMARY KEY (task, token);



ALTER TABLE ONLY dibs.tasks_ended
    ADD CONSTRAINT tasks_ended_pkey PRIMARY KEY (id);



ALTER TABLE ONLY dibs.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);



ALTER TABLE ONLY dibs.ticks
    ADD CONSTRAINT ticks_pkey PRIMARY KEY (job, ns, at);



CREATE INDEX events_of_job ON dibs.events USING btree (job, ns, at, id) WHERE (job <> '\x'::bytea);



CREATE INDEX events_recent ON dibs.events USING btree (((ns || ''::text)), at, id);



CREATE INDEX events_run ON dibs.events USING btree (run_id, ns) WHERE (run_id <> ''::text);



CREATE INDEX jobs_listed ON dibs.jobs USING btree (((ns || ''::text)), name);



CREATE INDEX leases_listed ON dibs.leases USING btree (((ns || ''::text)), key);



CREATE INDEX processes_recent ON dibs.processes USING btree (((ns || ''::text)), seen, id);



CREATE INDEX queue_bands_at ON dibs.queue_bands USING btree (queue, kind, rank);



CREATE INDEX queue_counts_at ON dibs.queue_counts USING btree (ns, minute);



CREATE INDEX queue_limits_ns ON dibs.queue_limits USING btree (ns, checked);



CREATE INDEX queue_limits_said ON dibs.queue_limits USING btree (ns, key) WHERE (said IS NOT NULL);



CREATE INDEX queue_marks_at ON dibs.queue_marks USING btree (queue, kind, rank, sort_key);



CREATE INDEX queue_names_id ON dibs.queue_names USING btree (id);



CREATE INDEX queue_names_ns ON dibs.queue_names USING btree (ns, kind, id);



CREATE INDEX queue_notes_ns ON dibs.queue_notes USING btree (ns, lim);



CREATE INDEX queue_workers_gone ON dibs.queue_workers USING btree (ns, gone) WHERE (gone <> 0);



CREATE INDEX queue_workers_here ON dibs.queue_workers USING btree (ns) WHERE (gone = 0);



CREATE INDEX queue_workers_unrescued ON dibs.queue_workers USING btree (ns) WHERE unrescued;



CREATE INDEX runs_of_job ON dibs.runs USING btree (job, ns, started, run_id);



CREATE INDEX runs_recent ON dibs.runs USING btree (((ns || ''::text)), started, run_id);



CREATE INDEX tasks_behind ON dibs.tasks USING btree (queue, kind, sort_key) WHERE ((state = 4) AND (sort_key >= 0));



CREATE INDEX tasks_blocked ON dibs.tasks USING btree (lim, queue, kind, sort_key) WHERE (state = 4);



CREATE INDEX tasks_displacing ON dibs.tasks USING btree (lim, id) WHERE ((contention = ANY (ARRAY[2, 3])) AND (state = ANY (ARRAY[3, 4])));



CREATE INDEX tasks_due ON dibs.tasks USING btree (queue, due, id) WHERE (state = ANY (ARRAY[0, 6]));



CREATE INDEX tasks_ended_otherwise ON dibs.tasks_ended USING btree (queue, state, ended, id) WHERE (state <> 10);



CREATE INDEX tasks_ended_succeeded ON dibs.tasks_ended USING btree (queue, ended, id) WHERE (state = 10);



CREATE INDEX tasks_expiry ON dibs.tasks USING btree (queue, expires) WHERE ((expires IS NOT NULL) AND (state = ANY (ARRAY[0, 1, 2, 3, 4, 6])));



CREATE INDEX tasks_nominee ON dibs.tasks USING btree (queue, kind, sort_key) WHERE ((state = 3) AND (sort_key >= 0));



CREATE INDEX tasks_nominee_subqueue ON dibs.tasks USING btree (lim, queue, kind, sort_key) WHERE ((state = 3) AND (lim IS NOT NULL));



CREATE INDEX tasks_ready ON dibs.tasks USING btree (queue, kind, sort_key) WHERE (state = 1);



CREATE INDEX tasks_running ON dibs.tasks USING btree (worker) WHERE (state = 5);



CREATE INDEX tasks_slot ON dibs.tasks USING btree (lim) WHERE ((state = 5) AND (lim IS NOT NULL));



CREATE INDEX tasks_stop ON dibs.tasks USING btree (worker) WHERE ((state = 5) AND (stop IS NOT NULL));



CREATE INDEX tasks_suspect ON dibs.tasks USING btree (queue, kind, sort_key) WHERE (state = 2);



CREATE UNIQUE INDEX tasks_unique ON dibs.tasks USING btree (uniq) WHERE held;



CREATE INDEX tasks_window ON dibs.tasks USING btree (queue, ((ended + hold)), id) WHERE (state = 10);



CREATE INDEX ticks_owed ON dibs.ticks USING btree (ns, SUBSTRING(job FROM 1 FOR POSITION(('\x2f'::bytea) IN (job))), at, job) WHERE ((state = 'closed'::text) AND (lease_token > 0) AND ((outcome = ANY (ARRAY['lost'::text, 'crashed'::text, 'canceled'::text, 'missed'::text, 'unavailable'::text, 'paused'::text])) OR ((outcome = 'skipped'::text) AND (reason = 'window'::text))));



CREATE INDEX ticks_ranges ON dibs.ticks USING gist (int8range(at, GREATEST(at, through), '[]'::text)) WHERE (through <> 0);



CREATE INDEX ticks_recent ON dibs.ticks USING btree (((ns || ''::text)), ((at + 0)), job);



CREATE INDEX ticks_unfinished ON dibs.ticks USING btree (ns, ((job || '\x'::bytea)), at) WHERE ((state || ''::text) <> 'closed'::text);





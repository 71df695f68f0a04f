-- Schema dibs, version 10: slots of limits are held back as grants of leases are (rules Q5, L9). A server that was promoted may not
-- know who has one.

-- Says whether they are. The first who asks a server that the namespace does not know has them held back.
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

-- The nominees of some kinds of a queue, the first in order first; none while slots are held back.
CREATE OR REPLACE FUNCTION dibs.queue_nominees(p_queue bigint, p_kinds bigint[], p_most int) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  ids bigint[] := ARRAY(SELECT w.id FROM (SELECT DISTINCT unnest(p_kinds) AS kind) k,
    LATERAL (SELECT t.id, t.place FROM dibs.tasks t WHERE t.queue = p_queue AND t.kind = k.kind AND t.state = 3 AND t.place >= 0
      ORDER BY t.place LIMIT p_most) w
    ORDER BY w.place LIMIT p_most);
BEGIN
  IF ids <> '{}' AND dibs.queue_held((SELECT q.ns FROM dibs.queue_names q WHERE q.id = p_queue LIMIT 1)) THEN
    RETURN '{}';
  END IF;
  RETURN ids;
END $$;

-- Replaced by version 9.
DROP FUNCTION dibs.queue_set_limit(text, uuid, int, text);

INSERT INTO dibs.migrations (version) VALUES (10);

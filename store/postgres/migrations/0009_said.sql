-- Schema dibs, version 9: an operator's word on a limit stands above what its tasks declare, until it is taken back
-- (Q5). While it stands, slots is the operator's, said is what tasks declared last, and heard is the id of the task
-- that did. declared is then beyond every id, so that no fetch takes a declaration from a task that a caller's
-- transaction took in.
ALTER TABLE dibs.queue_limits
  ADD COLUMN heard   bigint,
  ADD COLUMN said_of uuid, -- the limit's hash as the contract has it
  ADD COLUMN said_by text NOT NULL DEFAULT '',
  ADD COLUMN said_at bigint NOT NULL DEFAULT 0;
CREATE INDEX queue_limits_said ON dibs.queue_limits (ns, key) WHERE said IS NOT NULL;

-- Sets what a task declares of its limit: the last declaration wins and is an event (Q5). While an operator's word
-- stands it is only remembered. The caller has the limit locked, and settles it.
CREATE OR REPLACE FUNCTION dibs.queue_resize(p_lim uuid, p_slots int, p_declared bigint, p_by text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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

-- Sets what tasks that were just taken in declare of their limits: of several the last one wins. The limits are
-- locked. Returns whether any limit changed.
CREATE OR REPLACE FUNCTION dibs.queue_declared(p_lim uuid[], p_slots int[], p_ids bigint[], p_taken bigint[]) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
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

DROP FUNCTION dibs.queue_set_limit(text, uuid, int, text);

INSERT INTO dibs.migrations (version) VALUES (9);

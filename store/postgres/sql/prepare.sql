-- [0] What the server is: whether it is a standby, or takes no writes from us for another reason; its version,
-- encoding and isolation; whether it is durable.
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       current_setting('server_version_num')::int, current_setting('server_encoding'),
       current_setting('default_transaction_isolation'),
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', current_database()::text;

-- [1] Whether there is a schema. It is read from the catalogue's tables: a session may remember that a name was not
-- there, and to_regclass() would believe that even after waiting for the transaction that made it.
SELECT EXISTS (
  SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dibs' AND c.relname = 'migrations');

-- [2] Serializes preparations. The lock is freed with the transaction. The first number is "dibs" in ASCII.
SELECT pg_advisory_xact_lock(1684628083, 0);

-- [3] The schema's version, and the oldest version whose programs may use it. Before v0.1.0 there was no such column,
-- and to_jsonb makes it null.
SELECT coalesce(max(m.version), 0), coalesce(max((to_jsonb(m) ->> 'oldest')::int), 0) FROM dibs.migrations m;

-- [4] Makes the namespace $1 with max_ttl $2. Grants are held back for that long, unless somebody stated that the
-- store is new ($3, `dibs init`; L9). Two that make it at once: the first one's row stands.
INSERT INTO dibs.namespaces (ns, installation, identity, epoch, hold_until, max_ttl)
VALUES ($1, gen_random_uuid()::text, dibs.identity(), dibs.now_us(), CASE WHEN $3::bool THEN 0 ELSE dibs.now_us() + $2::bigint END, $2)
ON CONFLICT DO NOTHING;

-- [5] Raises max_ttl. It never falls: a hold of the longer TTL may be live.
UPDATE dibs.namespaces SET max_ttl = $2::bigint WHERE ns = $1 AND max_ttl < $2;

-- [6] What the namespace is, with the clock.
SELECT installation, identity, hold_until, max_ttl, dibs.now_us() FROM dibs.namespaces WHERE ns = $1;

-- [7] How to keep everybody else away from dibs's tables before an upgrade: the text of a statement that locks all of
-- them. An upgrade that took its locks one by one, as it comes to the tables, would wait for servers that wait for it.
SELECT 'LOCK TABLE ' || string_agg(format('dibs.%I', c.relname), ', ' ORDER BY c.relname) || ' IN ACCESS EXCLUSIVE MODE'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dibs' AND c.relkind IN ('r', 'p');

-- [8] For how long, in ms, that statement may take. A server that waits for a lock looks for a deadlock after
-- deadlock_timeout, and could be the one to give up: half of that is too short for most. It is half a second at most,
-- since all of dibs waits meanwhile.
SELECT greatest(least(setting::int / 2, 500), 1)::text FROM pg_settings WHERE name = 'deadlock_timeout';

-- [9] How long a migration may take: as long as it needs. If its program stops in the middle, the server gives the
-- tables back soon.
SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '2s', true);

-- [10] What the role may not do with the tables and sequences $1, of what the documentation has it granted. Nobody but
-- the schema's owner writes to migrations.
SELECT 'USAGE ON SCHEMA dibs' FROM pg_namespace n WHERE n.nspname = 'dibs' AND NOT has_schema_privilege(n.oid, 'USAGE')
UNION ALL
SELECT r.privilege || ' ON ' || string_agg('dibs.' || c.relname, ', ' ORDER BY c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
     (VALUES ('r', 'SELECT'), ('r', 'INSERT'), ('r', 'UPDATE'), ('r', 'DELETE'), ('S', 'SELECT'), ('S', 'USAGE')) AS r(kind, privilege)
WHERE n.nspname = 'dibs' AND c.relname::text = ANY($1::text[]) AND c.relkind::text = r.kind
  AND (c.relname <> 'migrations' OR r.privilege = 'SELECT')
  AND NOT CASE r.kind WHEN 'S' THEN has_sequence_privilege(c.oid, r.privilege) ELSE has_table_privilege(c.oid, r.privilege) END
GROUP BY r.kind, r.privilege;

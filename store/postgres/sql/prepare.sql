-- What the server is.
SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, current_setting('server_encoding'),
       current_setting('default_transaction_isolation'),
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', current_database()::text;

-- Whether there is a schema. Read from the catalogue's tables: a session may remember that a name was
-- not there, and to_regclass() would believe it even after waiting for the one who made it.
SELECT EXISTS (
  SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'dibs' AND c.relname = 'migrations');

-- Serializes preparations; freed with the transaction. The key is "dibs" in ASCII.
SELECT pg_advisory_xact_lock(1684628083, 0);

SELECT coalesce(max(version), 0) FROM dibs.migrations;

-- Makes the namespace $1 with max_ttl $2. Grants are held back unless it is known to be new ($3).
INSERT INTO dibs.namespaces (ns, installation, identity, epoch, hold_until, max_ttl)
VALUES ($1, gen_random_uuid()::text, dibs.identity(), dibs.now_us(), CASE WHEN $3::bool THEN 0 ELSE dibs.now_us() + $2::bigint END, $2)
ON CONFLICT DO NOTHING;

-- Raises max_ttl.
UPDATE dibs.namespaces SET max_ttl = $2::bigint WHERE ns = $1 AND max_ttl < $2;

-- What the namespace is.
SELECT installation, identity, hold_until, max_ttl, dibs.now_us() FROM dibs.namespaces WHERE ns = $1;

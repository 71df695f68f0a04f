-- [0] The settings of our own sessions, made once per connection. A setting that this server does not know is left
-- out, since they are joined with pg_settings.
-- * A grant is acknowledged only when it is on disk, whatever the role's default is.
-- * READ COMMITTED lets each statement see what it waited for.
-- * Every statement finds its rows by their keys. The planner knows nothing of a young table. It must neither plan
--   each call anew, which takes longer than the call, nor walk tables: hence generic plans, and no sequential scans,
--   hash joins and merge joins. For the same reason a batch's items carry the namespace in a CTE named asked:
--   compared with a constant, ns would be taken for a small part of the table, and that part would be walked.
-- * Nothing of a dead or cut-off client keeps its row locks for more than a few seconds.
-- * Text arrives as it is, and results look as the client reads them.
SELECT set_config(w.name, w.value, false)
FROM (VALUES
  ('client_encoding', 'UTF8'),
  ('bytea_output', 'hex'),
  ('standard_conforming_strings', 'on'),
  ('array_nulls', 'on'),
  ('transform_null_equals', 'off'),
  ('search_path', 'pg_catalog'),
  ('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END),
  ('default_transaction_isolation', 'read committed'),
  ('default_transaction_read_only', 'off'),
  ('plan_cache_mode', 'force_generic_plan'),
  ('enable_seqscan', 'off'),
  ('enable_hashjoin', 'off'),
  ('enable_mergejoin', 'off'),
  ('enable_nestloop', 'on'),
  ('enable_indexscan', 'on'),
  ('enable_indexonlyscan', 'on'),
  ('enable_bitmapscan', 'on'),
  ('jit', 'off'),
  ('transaction_timeout', '0'),
  ('lock_timeout', '5s'),
  ('statement_timeout', '30s'),
  ('idle_in_transaction_session_timeout', '30s'),
  ('idle_session_timeout', '0'),
  ('client_connection_check_interval', '1s'),
  ('tcp_keepalives_idle', '3'),
  ('tcp_keepalives_interval', '1'),
  ('tcp_keepalives_count', '3'),
  ('tcp_user_timeout', '6s')
) w(name, value) JOIN pg_settings USING (name);

-- [1] Those that matter within a transaction, for the length of one that uses a caller's or a pooler's connection: it
-- is the first statement of each batch there, and leaves the connection as it was.
SELECT set_config('client_encoding', 'UTF8', true), set_config('bytea_output', 'hex', true),
       set_config('standard_conforming_strings', 'on', true), set_config('array_nulls', 'on', true),
       set_config('transform_null_equals', 'off', true), set_config('search_path', 'pg_catalog', true),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('enable_nestloop', 'on', true),
       set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true), set_config('jit', 'off', true),
       set_config('lock_timeout', '5s', true), set_config('statement_timeout', '30s', true);

-- Shares the rows of the leases $2 until the transaction ends. Every operation that stands on a lease (T1) begins
-- with this: claim, take, start. A renewal, release or grant that is under way is waited for, so the statements that
-- follow judge the newest version. FOR SHARE lets operations on one lease run beside each other. Rows are locked in
-- the order of their keys, and leases come before jobs, ticks and runs.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT $1::text AS ns, key FROM unnest($2::bytea[]) key
), locked AS MATERIALIZED (
  SELECT l.key FROM asked q JOIN dibs.leases l ON l.ns = q.ns AND l.key = q.key
  ORDER BY l.key
  FOR SHARE OF l
)
SELECT count(*) FROM locked;

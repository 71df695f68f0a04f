-- Locks the tick ($2 job, $3 at), where there is one.
SELECT at FROM dibs.ticks WHERE ns = $1 AND job = $2::bytea AND at = $3::bigint FOR NO KEY UPDATE;

-- Starts the run $2 of job $3 and tick $4 (0: of none), whose claim (without a tick:
-- whose gate, if there is one) lives under $5 $6 $7, under the
-- live lease $8 $9 $10, not after $11. $12 host, $13 pid, $14 command, $15 start (0: now), $16 cause.
WITH allowed AS MATERIALIZED (
  SELECT dibs.now_us() AS now
  FROM dibs.leases l
  WHERE l.ns = $1 AND l.key = $8::bytea AND l.owner = $9 AND l.token = $10::bigint AND l.expires > dibs.now_us()
    AND ($11::bigint = 0 OR dibs.now_us() <= $11)
    AND ($4::bigint <> 0 OR $5::bytea = '' OR EXISTS (
      SELECT FROM dibs.leases g WHERE g.ns = $1 AND g.key = $5 AND g.owner = $6 AND g.token = $7::bigint AND g.expires > dibs.now_us()))
    AND NOT EXISTS (SELECT FROM dibs.runs WHERE ns = $1 AND run_id = $2)
), started AS (
  UPDATE dibs.ticks t
  SET state = 'started', lease_key = $8, lease_owner = $9, lease_token = $10, run_id = $2, started = a.now
  FROM allowed a
  WHERE $4::bigint <> 0 AND t.ns = $1 AND t.job = $3::bytea AND t.at = $4 AND t.state = 'claimed'
    AND t.lease_key = $5::bytea AND t.lease_owner = $6 AND t.lease_token = $7::bigint
  RETURNING t.at
)
INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, host, pid, command, started, cause)
SELECT $1, $2, $3, $4, $9, $10, $12, $13::bigint, $14, CASE WHEN $15::bigint = 0 THEN a.now ELSE $15 END, $16
FROM allowed a
WHERE $4::bigint = 0 OR EXISTS (SELECT FROM started)
ON CONFLICT DO NOTHING;

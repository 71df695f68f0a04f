-- [0] Keeps what the run $2 printed. The last word stands.
INSERT INTO dibs.outputs (ns, run_id, output) VALUES ($1, $2, $3)
ON CONFLICT (run_id, ns) DO UPDATE SET output = excluded.output;

-- [1] What the run $2 printed.
SELECT substring(output FROM 1 FOR $3::int) FROM dibs.outputs WHERE ns = $1 AND run_id = $2;

-- [2] Deletes the outputs of the $4 runs of job $2 that started just before its newest $3. Returns how many went. The
-- caller repeats it until none is left, so no step deletes more than $4.
WITH gone AS (
  DELETE FROM dibs.outputs WHERE ns = $1 AND run_id = ANY (ARRAY(
    SELECT run_id FROM dibs.runs WHERE ns = $1 AND job = $2::bytea ORDER BY started DESC LIMIT $4::int OFFSET $3::int))
  RETURNING 1
)
SELECT count(*) FROM gone;

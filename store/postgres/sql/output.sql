INSERT INTO dibs.outputs (ns, run_id, output) VALUES ($1, $2, $3)
ON CONFLICT (run_id, ns) DO UPDATE SET output = excluded.output;

SELECT output FROM dibs.outputs WHERE ns = $1 AND run_id = $2;

-- Deletes what the $4 runs of the job $2 printed that started before its newest $3.
WITH gone AS (
  DELETE FROM dibs.outputs WHERE ns = $1 AND run_id = ANY (ARRAY(
    SELECT run_id FROM dibs.runs WHERE ns = $1 AND job = $2::bytea ORDER BY started DESC LIMIT $4::int OFFSET $3::int))
  RETURNING 1
)
SELECT count(*) FROM gone;

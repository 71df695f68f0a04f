INSERT INTO dibs.outputs (ns, run_id, output) VALUES ($1, $2, $3)
ON CONFLICT (run_id, ns) DO UPDATE SET output = excluded.output;

SELECT output FROM dibs.outputs WHERE ns = $1 AND run_id = $2;

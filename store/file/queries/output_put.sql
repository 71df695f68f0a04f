-- Keeps what a run printed. The last word stands.
INSERT INTO dibs_outputs (run_id, output) VALUES (?1, ?2) ON CONFLICT (run_id) DO UPDATE SET output = excluded.output;

INSERT INTO events (at, kind, key, job, tick, run_id, host, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

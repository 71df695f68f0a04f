INSERT INTO dibs_processes (id, seen, record) VALUES (?1, CASE WHEN ?2 = 0 THEN ?3 ELSE min(?2, ?3) END, ?4)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, record = excluded.record

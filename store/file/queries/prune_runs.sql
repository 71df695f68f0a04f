-- A page of runs that started before ?1, behind (?2, ?3), and whether each may go. A run starts before it ends, so
-- the index of starts finds the old ones.
SELECT started, id, ended <> 0 AND ended < ?1 FROM dibs_runs INDEXED BY dibs_runs_started
WHERE started < ?1 AND (started, id) > (?2, ?3) ORDER BY started, id LIMIT ?4;

-- A page of ticks that begin before ?1, behind (?2, ?3), and whether each may go. A row above its job's mark stays:
-- it is what keeps the tick from running again (T4).
SELECT t.at, t.job, t.state = 'closed' AND t.last < ?1 AND coalesce(j.mark >= t.last, 1)
FROM dibs_ticks t INDEXED BY dibs_ticks_at LEFT JOIN dibs_jobs j ON j.name = t.job
WHERE t.at < ?1 AND (t.at, t.job) > (?2, ?3) ORDER BY t.at, t.job LIMIT ?4;

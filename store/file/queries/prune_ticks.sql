-- Above a job's mark a row is what keeps its tick from running again.
DELETE FROM dibs_ticks WHERE (job, at) IN
    (SELECT t.job, t.at FROM dibs_ticks t WHERE t.state = 'closed' AND t.at < ?1 AND t.last < ?1
        AND NOT EXISTS (SELECT 1 FROM dibs_jobs WHERE dibs_jobs.name = t.job AND dibs_jobs.mark < t.last)
    ORDER BY t.at LIMIT ?2);

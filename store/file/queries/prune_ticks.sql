-- Above a job's mark a row is what keeps its tick from running again.
DELETE FROM dibs_ticks WHERE state = 'closed' AND last < ?1
    AND NOT EXISTS (SELECT 1 FROM dibs_jobs WHERE dibs_jobs.name = dibs_ticks.job AND dibs_jobs.mark < dibs_ticks.last);

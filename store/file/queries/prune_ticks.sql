-- Above a job's mark a row is what keeps its tick from running again.
DELETE FROM ticks WHERE state = 'closed' AND last < ?1
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.name = ticks.job AND jobs.mark < ticks.last);

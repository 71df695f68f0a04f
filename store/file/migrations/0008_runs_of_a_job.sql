-- What a job's runs printed is forgotten beyond the newest ones: they are found without a look at those of other jobs.
CREATE INDEX dibs_runs_job ON dibs_runs (job, started, id);

-- The outputs of a job's runs are deleted beyond the newest ones. This index finds the runs without a look at other
-- jobs'.
CREATE INDEX dibs_runs_job ON dibs_runs (job, started, id);

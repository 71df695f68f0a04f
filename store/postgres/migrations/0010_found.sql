-- Schema dibs, version 10: what is read in pages is found among the rows of its own namespace, and a tick that is
-- named is found by its key alone.
--
-- A session keeps a plan that it made while a table was small, and that plan may use any index that fits one column:
-- 5,000 ticks of one instant were then read for each tick that was looked up by job and instant. So an index that
-- serves pages has an expression where another query might have an equality, and the queries that want this index
-- repeat the expression word for word: ns || '', at + 0, job || '', state || ''. No other query can use it.
--
-- The namespace stands before what is walked in order, so that the rows of other namespaces are not in the way. As a
-- plain column it begins only partial indexes: an index that begins with plain ns would fit nearly every query, and
-- all of a namespace was read for one key of it.
ALTER TABLE dibs.ticks DROP CONSTRAINT ticks_pkey, ADD PRIMARY KEY (job, ns, at);
CREATE INDEX leases_listed ON dibs.leases ((ns || ''), key);
CREATE INDEX jobs_listed ON dibs.jobs ((ns || ''), name);

DROP INDEX dibs.ticks_at, dibs.ticks_unfinished, dibs.ticks_owed, dibs.runs_job, dibs.runs_started, dibs.events_at;
CREATE INDEX ticks_recent ON dibs.ticks ((ns || ''), (at + 0), job);
CREATE INDEX ticks_unfinished ON dibs.ticks (ns, (job || ''::bytea), at) WHERE state || '' <> 'closed';
CREATE INDEX ticks_owed ON dibs.ticks (ns, substring(job from 1 for position('\x2f'::bytea in job)), at, job)
  WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window');
-- Ranges by the instants that they cover: a query from an instant on also wants the ranges that reach into it.
CREATE INDEX ticks_ranges ON dibs.ticks USING gist (int8range(at, greatest(at, through), '[]')) WHERE through <> 0;
CREATE INDEX runs_recent ON dibs.runs ((ns || ''), started, run_id);
CREATE INDEX runs_of_job ON dibs.runs (job, ns, started, run_id);
CREATE INDEX events_recent ON dibs.events ((ns || ''), at, id);
CREATE INDEX events_of_job ON dibs.events (job, ns, at, id) WHERE job <> '';

-- Where the last step of pruning ended, among rows that are old and have to stay. Without a row the next step begins
-- at the beginning.
CREATE TABLE dibs.pruned (
  ns   text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  at   bigint NOT NULL DEFAULT 0,
  name bytea NOT NULL DEFAULT '',
  PRIMARY KEY (ns, kind)
);

INSERT INTO dibs.migrations (version) VALUES (10);

-- Schema dibs, version 6: ticks that may still have to be run, by application and instant (tick.Tick's Owed). A job's
-- application is its name up to the first slash. What asks for them repeats the condition word for word.
CREATE INDEX ticks_owed ON dibs.ticks (substring(job from 1 for position('\x2f'::bytea in job)), at, job, ns)
  WHERE state = 'closed' AND lease_token > 0
    AND (outcome IN ('lost', 'crashed', 'canceled', 'missed', 'unavailable', 'paused') OR outcome = 'skipped' AND reason = 'window');

INSERT INTO dibs.migrations (version) VALUES (6);

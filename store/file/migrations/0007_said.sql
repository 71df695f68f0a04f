-- An operator's word on a limit stands above what its tasks declare, until it is taken back (Q5).
ALTER TABLE dibs_limits ADD COLUMN declared INTEGER NOT NULL DEFAULT 0; -- what they declared last, while it stands; else 0
ALTER TABLE dibs_limits ADD COLUMN said_by TEXT NOT NULL DEFAULT '';
ALTER TABLE dibs_limits ADD COLUMN said INTEGER NOT NULL DEFAULT 0; -- when
CREATE INDEX dibs_limits_said ON dibs_limits (key) WHERE declared > 0;

-- Reads the namespace's record without writing, for a program that only reads.
--
-- No ARGV. Answers as prepare does: now, id, schema (0: there is no such namespace), max_ttl, hold_until, created,
-- raised, changed, oldest.
local m = call('HMGET', prefix .. 'meta', 'id', 'schema', 'max_ttl', 'hold_until', 'oldest')
return {now, m[1] or '', num(m[2]), num(m[3]), num(m[4]), 0, 0, 0, num(m[5])}

-- The processes, the latest to report first, without their records.
--
-- ARGV: how many at most. Answers: now, then id and instant of each.
local found = call('ZREVRANGE', prefix .. 'processes', 0, ARGV[1] - 1, 'WITHSCORES')
return {now, found}

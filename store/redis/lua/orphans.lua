-- A page of unfinished ticks, by job and instant (T2, T3). Each tells whether its lease is live, so the caller picks
-- the dead ones: a script reads no more rows than it was asked for.
--
-- ARGV: lower and upper bound as ZRANGEBYLEX takes them, most rows. Answers: now, then the ticks.
local reply = {now}
for _, u in ipairs(call('ZRANGEBYLEX', prefix .. 'open', ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local job, at = string.match(u, '^(.*)\31(.*)$')
  reply[#reply + 1] = row(member(job, at))
end
return reply

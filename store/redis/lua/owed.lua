-- A page of an application's ticks that may still have to be run (tick.Tick's Owed), the latest first.
--
-- ARGV: application with its slash, lower and upper bound as ZREVRANGEBYLEX takes them, most rows. Answers: now, then
-- the ticks.
local reply = {now}
for _, m in ipairs(call('ZREVRANGEBYLEX', prefix .. 'owed:' .. ARGV[1], ARGV[3], ARGV[2], 'LIMIT', 0, ARGV[4])) do
  reply[#reply + 1] = row(m)
end
return reply

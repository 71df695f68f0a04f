-- Deletes the oldest processes that reported before an instant.
--
-- ARGV: the instant, how many at most. Answers: now.
local old = call('ZRANGEBYSCORE', prefix .. 'processes', '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
for i = 1, #old do
  plan('HDEL', prefix .. 'process', old[i])
  plan('ZREM', prefix .. 'processes', old[i])
end
in_place()
write_planned()
return {now}

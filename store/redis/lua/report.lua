-- Keeps what a process says of itself.
--
-- ARGV: its id, when it reported ('0' for now, which is the latest), its record, the size of a crowd. Answers: now,
-- when the oldest process reported, and when the latest but a crowd did (0: there are fewer), both as it was before.
local processes = prefix .. 'processes'
local oldest = call('ZRANGE', processes, 0, 0, 'WITHSCORES')
local crowded = call('ZREVRANGE', processes, ARGV[4], ARGV[4], 'WITHSCORES')
local again = call('ZSCORE', processes, ARGV[1])
plan('HSET', prefix .. 'process', ARGV[1], ARGV[3])
local seen = ARGV[2]
if seen == '0' or tonumber(seen) > now then seen = now_text end
plan('ZADD', processes, seen, ARGV[1])
if again then in_place() end -- so a server that is full still keeps who is there
write_planned()
return {now, num(oldest[2]), num(crowded[2])}

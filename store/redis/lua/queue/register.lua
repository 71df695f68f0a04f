-- Records a worker, if its lease is live.
--
-- ARGV: the lease's name, its hold, host, and all as JSON. Answers: now, 1 or 2 (no live lease).
if not live(ARGV[1], ARGV[2]) then return {now, 2} end
local n = join(ARGV[1], ARGV[2])
add('HSET', 'worker:' .. n, 'host', ARGV[3])
add('HSET', 'worker:' .. n, 'json', ARGV[4])
commit()
return {now, 1}

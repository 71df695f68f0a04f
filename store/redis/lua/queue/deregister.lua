-- Forgets a worker that leaves, and rescues some of its tasks (Q4). The caller repeats it, and Maintain does the
-- rest.
--
-- ARGV: hold, how many tasks to rescue at most. Answers: now, how many are left.
local n = worker_of(ARGV[1])
if not n then return {now, 0} end
local left = call('SCARD', prefix .. 'running:' .. n)
local ids = call('SRANDMEMBER', prefix .. 'running:' .. n, ARGV[2])
load(ids)
for _, id in ipairs(ids) do
  if rows[id] then rescue(rows[id]) else mark('running:' .. n, id, false) end
end
left = left - #ids
if left == 0 then mark_gone(n) end
finish()
return {now, left}

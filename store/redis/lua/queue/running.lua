-- The tasks that a worker has, in steps of SSCAN.
--
-- ARGV: hold, '1' for those only that are asked to stop, where to go on ('0' at first). Answers: now, where to go on
-- ('0': that was all), then of each task: id, token, why it is to stop. A task may come twice.
local reply, n = {now, '0'}, worker_of(ARGV[1])
if not n then return reply end
local some = call('SSCAN', prefix .. (ARGV[2] == '1' and 'asked:' or 'running:') .. n, ARGV[3], 'COUNT', STEP)
reply[2] = some[1]
load(some[2])
for _, id in ipairs(some[2]) do
  local t = rows[id]
  if t and t[STATE] == RUNNING and t[WORKER] == n then
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = tonumber(id), t[TOKEN], stop_of(t)
  end
end
return reply

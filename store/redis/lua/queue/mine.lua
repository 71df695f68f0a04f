-- ARGV: hold, '1' for those only that are asked to stop. Answers: now, then of each task: id, token, why it is to stop.
local reply, n = {now}, worker_of(ARGV[1])
if not n then return reply end
local ids = call('SMEMBERS', prefix .. (ARGV[2] == '1' and 'asked:' or 'running:') .. n)
load(ids)
for _, id in ipairs(ids) do
  local t = rows[id]
  if t and t[STATE] == RUNNING and t[WORKER] == n then
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = tonumber(id), t[TOKEN], stop_of(t)
  end
end
return reply

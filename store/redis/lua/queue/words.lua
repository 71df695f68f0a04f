-- The operators' words on limits that stand, a thousand at most.
--
-- Answers: now, then of each: its limit's key, the readable one, max, what is declared, by whom, since when.
local reply = {now}
for _, key in ipairs(call('ZRANGE', prefix .. 'words', 0, 999)) do
  local v = call('HMGET', prefix .. 'limit:' .. key, 'key', 'max', 'said', 'by', 'since')
  if v[3] then
    for _, what in ipairs({key, v[1], v[2], v[3], v[4], v[5]}) do reply[#reply + 1] = what end
  end
end
return reply

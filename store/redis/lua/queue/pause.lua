-- ARGV: 'queue<US>kind', until (0: none), the pause as JSON ('' to resume), the event's kind and words.
-- Answers: now, 1 or 0 (there was none).
local field, till, json, kind, words = unpack(ARGV)
if json ~= '' then
  call('HSET', prefix .. 'pauses', field, till .. ' ' .. now_text .. ' ' .. json)
  note(kind, words)
  return {now, 1}
end
local was = call('HGET', prefix .. 'pauses', field)
if not was then return {now, 0} end
call('HDEL', prefix .. 'pauses', field)
local ended = tonumber(string.match(was, '^%d+'))
if ended > 0 and ended <= now then return {now, 0} end
note(kind, words)
for _, queue in ipairs(call('SMEMBERS', prefix .. 'idle')) do
  call('SREM', prefix .. 'idle', queue)
  call('PUBLISH', prefix .. 'work:' .. queue, '')
end
return {now, 1}

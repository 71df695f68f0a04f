-- Begins, changes or ends a pause of a queue or kind, and records it. A fetch is one step as well, so once this is
-- answered no fetch gives what is paused. The end of a pause wakes idle workers.
--
-- ARGV: 'queue<US>kind', until (0: none), the pause as JSON ('' to resume), the event's kind and words. Answers: now,
-- 1 or 0 (there was none).
local field, till, json, kind, words = unpack(ARGV, 1, 5)
if json ~= '' then
  add('HSET', 'pauses', field, till .. ' ' .. now_text .. ' ' .. json)
  note(kind, words)
  commit()
  return {now, 1}
end
local was = call('HGET', prefix .. 'pauses', field)
if not was then return {now, 0} end
remove('HDEL', 'pauses', field)
local ended = tonumber(string.match(was, '^%d+'))
if ended > 0 and ended <= now then
  commit()
  return {now, 0}
end
note(kind, words)
for _, queue in ipairs(call('SRANDMEMBER', prefix .. 'idle', STEP)) do wakes[queue] = true end -- beyond it they poll
commit()
return {now, 1}

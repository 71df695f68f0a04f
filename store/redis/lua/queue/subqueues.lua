-- Describes sub-queues for Admin, as far as STEP allows; the caller asks again for the rest.
--
-- ARGV: sub-queues. Answers: now, then of each, of the first one at least: its name, {state, count, …}, since when
-- its oldest task is due.

-- earliest looks at the first few of each rank, and at the first blocked ones: within a rank, ids are nearly
-- in the order of instants.
local function earliest(subqueue)
  local ids = {}
  for _, class in ipairs({'ready:', 'suspect:', 'crasher:'}) do
    local key = prefix .. class .. subqueue
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    while head[1] do
      local above = (math.floor(tonumber(head[2]) / SPAN) + 1) * SPAN
      for _, id in ipairs(call('ZRANGEBYSCORE', key, head[2], '(' .. text(above), 'LIMIT', 0, 20)) do ids[#ids + 1] = id end
      spend(1)
      head = call('ZRANGEBYSCORE', key, text(above), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    end
  end
  load(ids)
  spend(#ids)
  local at = 0
  for _, id in ipairs(ids) do
    local t = rows[id]
    if t and (at == 0 or t[RUN_AT] < at) then at = t[RUN_AT] end
  end
  local blocked = call('ZRANGE', prefix .. 'blocked:' .. subqueue, 0, 0, 'WITHSCORES')[2]
  if blocked and (at == 0 or tonumber(blocked) < at) then at = tonumber(blocked) end
  return at
end

local reply = {now}
for _, subqueue in ipairs(ARGV) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = subqueue_name(subqueue), call('HGETALL', prefix .. 'depth:' .. subqueue), earliest(subqueue)
  spend(1)
  if enough() then break end
end
return reply

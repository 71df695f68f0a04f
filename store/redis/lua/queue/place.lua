-- Where a waiting task is: on its lane's shelf, where Fetch finds it ('ready:', 'suspect:' or
-- 'charged:<lane>'), among those with an instant to come ('due:<lane>'), or behind its limit
-- ('behind:<limit>:<lane>'). Shelves and what is behind a limit are ordered by rank.

local SPAN = 140737488355328 -- 2^47: more tasks than a namespace will ever have; 38 ranks of it fit below 2^53

-- rank is the order within a queue: moved to the front, priority, id.
local function rank(t)
  return ((t[FRONT] == 1 and 0 or 19) + 9 - t[PRIORITY]) * SPAN + t[ID]
end

-- A suspect has a shelf apart, so that no fetch has to pass over those that it may not take.
local function shelf(t)
  if t[SUSPECT] == 0 then return 'ready:' .. t[LANE] end
  return (t[CRASHES] == 0 and 'suspect:' or 'charged:') .. t[LANE]
end

-- put adds to a sorted set; settle carries out what was put, and must precede whatever looks.
local puts, any_put = {}, false
local function put(key, score, id)
  local p = puts[key]
  if not p then
    p = {}
    puts[key] = p
    any_put = true
  end
  p[#p + 1] = score
  p[#p + 1] = id
end

local function settle()
  if not any_put then return end
  for key, p in pairs(puts) do call('ZADD', prefix .. key, unpack(p)) end
  puts, any_put = {}, false
end

-- drop takes out of a sorted set.
local function drop(key, id)
  settle()
  return call('ZREM', prefix .. key, id) == 1
end

local offered, sooner = {}, {} -- lanes with a task for Fetch; lanes with one to come, and the earliest

local function offer(t)
  become(t, AVAILABLE)
  put(shelf(t), rank(t), t[ID])
  offered[t[LANE]] = true
end

-- wake tells idle workers, if a queue has any: Fetch marks it so when it found less than it could take.
local function wake(queue)
  if call('SREM', prefix .. 'idle', queue) == 1 then call('PUBLISH', prefix .. 'work:' .. queue, '') end
end

local function announce()
  local queues = {}
  for lane in pairs(offered) do
    local queue = queue_of(lane)
    local lanes = queues[queue]
    if lanes then lanes[#lanes + 1] = lane else queues[queue] = {lane} end
  end
  for queue, lanes in pairs(queues) do
    call('SADD', prefix .. 'offered:' .. queue, unpack(lanes))
    wake(queue)
  end
  for lane, at in pairs(sooner) do
    local queue = queue_of(lane)
    call('SADD', prefix .. 'dues', lane)
    call('SADD', prefix .. 'dues:' .. queue, lane)
    if not queues[queue] and call('SISMEMBER', prefix .. 'idle', queue) == 1 then
      -- An idle worker sleeps until what it knows is next.
      local first = call('ZRANGE', prefix .. 'due:' .. lane, 0, 0, 'WITHSCORES')
      if first[2] and tonumber(first[2]) >= at then wake(queue) end
    end
  end
end

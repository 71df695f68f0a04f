-- Where a waiting task is: on its lane's shelf, where a fetch finds it ('ready:', 'suspect:' or 'charged:<lane>');
-- among those with an instant to come ('due:<lane>'); or behind its limit ('behind:<limit>:<lane>'). Shelves and what
-- is behind a limit are ordered by rank.

local SPAN = 140737488355328 -- 2^47: more tasks than a namespace will ever have; 38 ranks of it fit below 2^53

-- rank is the order within a queue as one number: moved to the front, priority, id.
local function rank(t)
  return ((t[FRONT] == 1 and 0 or 19) + 9 - t[PRIORITY]) * SPAN + t[ID]
end

-- shelf is the key of a task's shelf. Suspects have shelves of their own (Q4), so that no fetch has to pass over
-- tasks that it may not take.
local function shelf(t)
  if t[SUSPECT] == 0 then return 'ready:' .. t[LANE] end
  return (t[CRASHES] == 0 and 'suspect:' or 'charged:') .. t[LANE]
end

local offered, sooner = {}, {} -- lanes with a task for Fetch; lanes with one to come, and the earliest
local offers = 0

-- offer makes a task available to fetches.
local function offer(t)
  become(t, AVAILABLE)
  put(shelf(t), rank(t), t[ID])
  offered[t[LANE]] = true
  offers = offers + 1
end

-- idles says whether a worker waits for tasks of a queue.
local function idles(queue) return wakes[queue] or call('SISMEMBER', prefix .. 'idle', queue) == 1 end

-- announce wakes idle workers of the queues in which tasks became available, or will earlier than a worker knows. A
-- fetch that found less than it could take has marked its queue as idle: a busy queue is never told of.
local function announce()
  local queues = {}
  for lane in pairs(offered) do
    local queue = queue_of(lane)
    mark('offered:' .. queue, lane, true)
    if not queues[queue] then
      queues[queue] = true
      if idles(queue) then wakes[queue] = true end
    end
  end
  for lane, at in pairs(sooner) do
    local queue = queue_of(lane)
    mark('dues', lane, true)
    mark('dues:' .. queue, lane, true)
    if not queues[queue] and idles(queue) then
      -- An idle worker sleeps until what it knows is next.
      local next_one = call('ZRANGE', prefix .. 'due:' .. lane, 0, 0, 'WITHSCORES')
      if not next_one[2] or tonumber(next_one[2]) >= at then wakes[queue] = true end
    end
  end
end

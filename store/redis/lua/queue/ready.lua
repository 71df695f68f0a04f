-- Where a waiting task is: among the ready ones of its sub-queue, where a fetch finds it ('ready:', 'suspect:' or
-- 'crasher:<subqueue>'); among those with an instant to come ('due:<subqueue>'); or behind its limit
-- ('behind:<limit>:<subqueue>'). Ready tasks and those behind a limit are ordered by their sort keys.

local SPAN = 140737488355328 -- 2^47: more tasks than a namespace will ever have; 38 ranks of it fit below 2^53

-- sort_key is the order within a queue as one number: moved to the front, priority, id.
local function sort_key(t)
  return ((t[FRONT] == 1 and 0 or 19) + 9 - t[PRIORITY]) * SPAN + t[ID]
end

-- ready_key is the key of the ready tasks among which a task belongs: plain ones, suspects, or suspects that crashed
-- a worker before. They are apart (Q4), so that no fetch has to pass over tasks that it may not take.
local function ready_key(t)
  if t[SUSPECT] == 0 then return 'ready:' .. t[SUBQUEUE] end
  return (t[CRASHES] == 0 and 'suspect:' or 'crasher:') .. t[SUBQUEUE]
end

local offered, sooner = {}, {} -- sub-queues with a task for Fetch; sub-queues with one to come, and the earliest
local offers = 0

-- offer makes a task available to fetches.
local function offer(t)
  become(t, AVAILABLE)
  put(ready_key(t), sort_key(t), t[ID])
  offered[t[SUBQUEUE]] = true
  offers = offers + 1
end

-- idles says whether a worker waits for tasks of a queue.
local function idles(queue) return wakes[queue] or call('SISMEMBER', prefix .. 'idle', queue) == 1 end

-- announce wakes idle workers of the queues in which tasks became available, or will earlier than a worker knows. A
-- fetch that found less than it could take has marked its queue as idle: a busy queue is never told of.
local function announce()
  local queues = {}
  for subqueue in pairs(offered) do
    local queue = queue_of(subqueue)
    mark('offered:' .. queue, subqueue, true)
    if not queues[queue] then
      queues[queue] = true
      if idles(queue) then wakes[queue] = true end
    end
  end
  for subqueue, at in pairs(sooner) do
    local queue = queue_of(subqueue)
    mark('dues', subqueue, true)
    mark('dues:' .. queue, subqueue, true)
    if not queues[queue] and idles(queue) then
      -- An idle worker sleeps until what it knows is next.
      local next_one = call('ZRANGE', prefix .. 'due:' .. subqueue, 0, 0, 'WITHSCORES')
      if not next_one[2] or tonumber(next_one[2]) >= at then wakes[queue] = true end
    end
  end
end

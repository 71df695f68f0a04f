-- How a task comes to wait, and ceases to.

-- admit puts a task that is due where it waits: in line for its limit, or among the ready ones.
local function admit(t)
  if t[LIMIT] >= DISPLACE then put('displacing:' .. more(t).limit_key, tonumber(t[ID]), t[ID]) end
  if t[LIMIT] > 0 and limits().queues(t) then return limits().line_up(t) end
  offer(t)
end

-- defer lets a task wait for its instant, in the given state.
local function defer(t, state)
  become(t, state)
  put('due:' .. t[SUBQUEUE], t[RUN_AT], t[ID])
  sooner[t[SUBQUEUE]] = math.min(sooner[t[SUBQUEUE]] or t[RUN_AT], t[RUN_AT])
end

-- enter is admit if the task's instant has come, else defer.
local function enter(t, state)
  if t[RUN_AT] <= now then admit(t) else defer(t, state) end
end

-- withdraw takes a waiting task from where it waits.
local function withdraw(t)
  if t[STATE] == SCHEDULED or t[STATE] == RETRYABLE then
    drop('due:' .. t[SUBQUEUE], t[ID])
    return
  end
  if t[STATE] == AVAILABLE then drop(ready_key(t), t[ID]) end
  if t[LIMIT] >= DISPLACE then drop('displacing:' .. more(t).limit_key, t[ID]) end
  if t[LIMIT] > 0 and limits().queues(t) then limits().leave_line(t) end
end

-- A task's expires_at is watched for while it waits (Q6).
local function watch_expiry(t)
  if t[EXPIRES] > 0 then put('expiry', t[EXPIRES], t[ID]) end
end

local function unwatch_expiry(t)
  if t[EXPIRES] > 0 then drop('expiry', t[ID]) end
end

-- stop_waiting ends a task that waits, in a final state.
local function stop_waiting(t, state, reason)
  withdraw(t)
  unwatch_expiry(t)
  conclude(t, state, reason)
  if state == DISCARDED then tally(t, 'discarded:' .. reason) end
end

-- make_due makes up to n tasks of a sub-queue available whose instant has come, the earliest first, and says how
-- many.
local function make_due(subqueue, n)
  if n <= 0 then return 0 end
  local key = 'due:' .. subqueue
  local z = zset(key)
  local ids = call('ZRANGEBYSCORE', prefix .. key, '-inf', now, 'LIMIT', z.taken, n)
  if #ids == 0 then
    if z.taken == 0 and call('EXISTS', prefix .. key) == 0 then
      mark('dues', subqueue, false)
      mark('dues:' .. queue_of(subqueue), subqueue, false)
    end
    return 0
  end
  z.taken = z.taken + #ids
  load(ids)
  for _, id in ipairs(ids) do
    if rows[id] and not z.gone[id] then admit(rows[id]) end
  end
  return #ids
end

-- wait_again lets a task that ran or ended wait again: for its instant if a state is given, else at once.
local function wait_again(t, state)
  if t[LIMIT] == DISPLACED then t[LIMIT] = DISPLACE end
  say(t, 'stop', '')
  watch_expiry(t)
  if state then defer(t, state) else admit(t) end
end

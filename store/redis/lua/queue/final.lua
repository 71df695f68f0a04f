-- How tasks end. 'unique' maps keys to the tasks that hold them, 'windows' orders those that hold one
-- beyond their success by its end, 'ended:<state>' lists tasks in the order in which they ended, for
-- retention, and 'final:<state>' those of the rarer states by id.

local ended = {} -- ids by state

-- tally adds to the counters, of what nobody but the store sees.
local tallies = {}
local function tally(t, name)
  local field = lane_name(t[LANE]) .. '\31' .. name
  tallies[field] = (tallies[field] or 0) + 1
end

-- let_go gives up the key of a task, if it is still the task's when the script ends. Others that had it before may end in
-- the same script.
local leaving = {} -- sets of ids, by key
local function let_go(t)
  local key = key_of(t)
  leaving[key] = leaving[key] or {}
  leaving[key][t[ID]] = true
end

local function free_keys()
  local keys, over = {}, {}
  for key in pairs(leaving) do keys[#keys + 1] = key end
  if #keys == 0 then return end
  for i, id in ipairs(call('HMGET', prefix .. 'unique', unpack(keys))) do
    if leaving[keys[i]][id] then over[#over + 1] = keys[i] end
  end
  if #over > 0 then call('HDEL', prefix .. 'unique', unpack(over)) end
end

local function list_ended(t, state)
  local e = ended[state]
  if e then e[#e + 1] = t[ID] else ended[state] = {t[ID]} end
end

-- conclude gives a task its final state. It must be out of where it waited, or ran.
local function conclude(t, state, reason)
  become(t, state)
  t[ENDED] = now
  say(t, 'reason', reason)
  say(t, 'stop', '')
  if t[LIMIT] == DISPLACED then t[LIMIT] = DISPLACE end
  if state == SUCCEEDED and t[UNIQUE] == UNTIL_FINISHED and window_of(t) > 0 then
    put('windows', now + window_of(t), t[ID])
    return
  end
  if t[UNIQUE] == UNTIL_FINISHED or t[UNIQUE] == UNTIL_STARTED then let_go(t) end
  list_ended(t, state)
  if state ~= SUCCEEDED then put('final:' .. state, tonumber(t[ID]), t[ID]) end
end

-- cancel ends a task that somebody stopped, where no worker says so. It must be out of where it waited, or ran.
local function cancel(t, reason)
  conclude(t, CANCELED, reason)
  tally(t, 'canceled')
end

-- close_window lets go of the key of a task that succeeded.
local function close_window(t)
  drop('windows', t[ID])
  let_go(t)
  list_ended(t, SUCCEEDED)
end

local function in_window(t) return t[STATE] == SUCCEEDED and t[UNIQUE] == UNTIL_FINISHED and window_of(t) > 0 end

-- delete removes a final task's row, and all that belongs to it.
local deleted = {}
local function delete(t)
  if in_window(t) then drop('windows', t[ID]) end
  if t[UNIQUE] == UNTIL_FINISHED or t[UNIQUE] == UNTIL_STARTED then let_go(t) end
  if t[STATE] ~= SUCCEEDED then drop('final:' .. t[STATE], t[ID]) end
  shift(t[LANE], t[STATE], -1)
  rows[t[ID]] = false
  deleted[#deleted + 1] = t[ID]
end

local function remove_deleted()
  if #deleted == 0 then return end
  local tries = {}
  for i, id in ipairs(deleted) do tries[i] = prefix .. 'tries:' .. id end
  call('UNLINK', unpack(tries))
  local last = page(num(call('HGET', prefix .. 'queue', 'id')))
  for n, p in pairs(grouped(deleted)) do
    call('HDEL', prefix .. 'rows:' .. n, unpack(p))
    call('HDEL', prefix .. 'specs:' .. n, unpack(p))
    if n < last and call('EXISTS', prefix .. 'rows:' .. n) == 0 then call('ZREM', prefix .. 'pages', n) end
  end
end

-- finish is how a script that changes tasks ends.
local function finish()
  settle()
  for state, ids in pairs(ended) do call('RPUSH', prefix .. 'ended:' .. state, unpack(ids)) end
  announce()
  free_keys()
  remove_deleted()
  save()
  if not next(tallies) then return end
  local minute = text(now - now % 60000000)
  for field, n in pairs(tallies) do call('HINCRBY', prefix .. 'counts:' .. minute, field, n) end
  call('ZADD', prefix .. 'minutes', minute, minute)
end

-- How tasks end. 'unique' maps keys to the tasks that hold them (Q1). 'windows' orders tasks that hold a key beyond
-- their success, by the end of that. 'ended:<state>' lists tasks in the order in which they ended, for retention.
-- 'final:<state>' has those of the rarer states, by id.

local ended = {} -- ids by state

-- tally counts what only the store sees.
local tallies = {}
local function tally(t, name)
  local field = subqueue_name(t[SUBQUEUE]) .. '\31' .. name
  tallies[field] = (tallies[field] or 0) + 1
end

-- let_go gives up a task's key, if the key is still the task's when the script ends. Earlier holders of the key may
-- end in the same script.
local leaving = {} -- sets of ids, by key
local function let_go(t)
  local key = key_of(t)
  leaving[key] = leaving[key] or {}
  leaving[key][t[ID]] = true
end

-- owners are the tasks that hold keys as this script leaves them; false: nobody does.
local owners, owned = {}, {}
local function look_up(keys)
  local unknown = {}
  for _, key in ipairs(keys) do
    if owners[key] == nil then unknown[#unknown + 1] = key end
  end
  for key, id in pairs(fields('unique', unknown)) do owners[key] = id end
end

-- owner is the task that holds a key now; not one whose time ran out in this script.
local function owner(key)
  look_up({key})
  local id = owners[key]
  return id and not (leaving[key] and leaving[key][id]) and task(id) or nil
end

-- own makes a task the holder of a key.
local function own(key, id)
  owners[key], owned[key] = id, true
  if leaving[key] then leaving[key][id] = nil end
end

-- write_keys keeps what changed of 'unique'. It reads first, so it comes before the first write.
local function write_keys()
  local keys = {}
  for key in pairs(leaving) do keys[#keys + 1] = key end
  look_up(keys)
  for _, key in ipairs(keys) do
    if owners[key] and leaving[key][owners[key]] then
      owners[key] = false
      remove('HDEL', 'unique', key)
    end
  end
  for key in pairs(owned) do
    if owners[key] then add('HSET', 'unique', key, owners[key]) end
  end
end

local function list_ended(t, state)
  local e = ended[state]
  if e then e[#e + 1] = t[ID] else ended[state] = {t[ID]} end
end

-- conclude gives a task its final state. The caller has taken it from where it waited or ran. A window is open from
-- success on (Q1); all other keys are let go of.
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

-- cancel ends a task that somebody stopped, when no worker says so. The caller has taken it from where it waited or
-- ran.
local function cancel(t, reason)
  conclude(t, CANCELED, reason)
  tally(t, 'canceled')
end

-- close_window lets go of the key of a task that succeeded, at the end of its window.
local function close_window(t)
  drop('windows', t[ID])
  let_go(t)
  list_ended(t, SUCCEEDED)
end

local function in_window(t) return t[STATE] == SUCCEEDED and t[UNIQUE] == UNTIL_FINISHED and window_of(t) > 0 end

-- delete removes a final task's row, and all that belongs to it.
local deleted = {}
-- delete removes a final task's row and all that belongs to it.
local function delete(t)
  if in_window(t) then drop('windows', t[ID]) end
  if t[UNIQUE] == UNTIL_FINISHED or t[UNIQUE] == UNTIL_STARTED then let_go(t) end
  if t[STATE] ~= SUCCEEDED then drop('final:' .. t[STATE], t[ID]) end
  count_state(t[SUBQUEUE], t[STATE], -1)
  rows[t[ID]] = false
  deleted[#deleted + 1] = t[ID]
end

-- remove_deleted plans the deletion of rows and specs, and of a page that has become empty.
local function remove_deleted()
  if #deleted == 0 then return end
  local last = page(num(call('HGET', prefix .. 'queue', 'id')))
  for n, p in pairs(grouped(deleted)) do
    for _, id in ipairs(p) do
      order('UNLINK', 'attempts:' .. id)
      remove('HDEL', 'rows:' .. n, id)
      remove('HDEL', 'specs:' .. n, id)
    end
    if n < last and call('HLEN', prefix .. 'rows:' .. n) == #p then drop('pages', n) end
  end
end

local function write_tallies()
  if not next(tallies) then return end
  local minute = text(now - now % 60000000)
  for field, n in pairs(tallies) do order('HINCRBY', 'counts:' .. minute, field, n) end
  put('minutes', now - now % 60000000, minute)
end

-- finish is how every script that changes tasks ends. The order matters: limits are settled while reading is still
-- allowed, and nothing is read after commit began to write.
local function finish()
  if limits_made then
    limits().settle()
    limits().write()
  end
  for state, ids in pairs(ended) do
    local p = values(additions, 'RPUSH', 'ended:' .. state)
    for _, id in ipairs(ids) do p[#p + 1] = id end
  end
  announce()
  write_keys()
  remove_deleted()
  save()
  write_tallies()
  commit()
end

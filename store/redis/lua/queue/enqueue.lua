-- ARGV: fresh installation id, schema, longest TTL (for identity), how many lanes and how many limits; the
-- lanes' names; of each limit: its key, and the readable one; then of each task: what is asked for
-- (PLAIN or ASKED), and its spec. Answers: now, then of each: answer, id, state.
local PLAIN, PLAIN_SIZE = '<I2bddI4', 23
local ASKED, ASKED_UNIQUE, ASKED_KEY = '<I2bddI4dBBc16ddBI4I2', 32, 34
local NEW, DUPLICATE, UPDATED = 1, 2, 3

-- Without the namespace's record the data is gone: leases are held back from now on (rule L9).
if call('HEXISTS', prefix .. 'meta', 'id') == 0 then identity(ARGV[1], ARGV[2], ARGV[3]) end

local lanes, named, from = {}, {}, 6
for i = 1, tonumber(ARGV[4]) do
  lanes[i] = lane_of(ARGV[from])
  from = from + 1
end
for i = 1, tonumber(ARGV[5]) do
  named[i] = {key = ARGV[from], readable = ARGV[from + 1]}
  from = from + 2
end

-- What is new is written page by page, at the end; ids are taken from last.
local last = num(call('HGET', prefix .. 'queue', 'id'))
local new_rows, new_specs = {}, {}

local function keep(pages, n, id, value)
  local p = pages[n]
  if p then
    p[#p + 1] = id
    p[#p + 1] = value
  else
    pages[n] = {id, value}
  end
end

local function write(name, pages)
  for n, p in pairs(pages) do call('HSET', prefix .. name .. n, unpack(p)) end
end

local function next_id()
  last = last + 1
  if last % 1000 == 0 or last == 1 then put('pages', page(last), page(last)) end
  return text(last)
end

local function due(run_at, delay) return (run_at > 0 and run_at or now) + delay end

local reply = {now}
local function answer(what, id, state)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = what, tonumber(id), state
end

-- Most tasks have neither a key, nor a limit, nor an expiry, and those of a batch are alike but for their
-- specs: their row is packed once.
local alike = {}
local function plain(asked)
  local p = alike[asked]
  if p then return p end
  local lane, priority, run_at, delay, max_crashes = struct.unpack(PLAIN, asked)
  local t = {
    0, false, false, false,
    AVAILABLE, 0, 0, 0, 0, 0, 0, priority, lanes[lane], 0, 0, 0, 0, 0, max_crashes,
    now, due(run_at, delay), 0, 0, 0, 0, NO_WORDS,
  }
  p = {lane = t[LANE], n = 0}
  if t[RUN_AT] <= now then
    p.key, p.base = shelf(t), rank(t)
    offered[p.lane] = true
  else
    t[STATE] = SCHEDULED
    p.key, p.due = 'due:' .. p.lane, t[RUN_AT]
    sooner[p.lane] = math.min(sooner[p.lane] or p.due, p.due)
  end
  p.state, p.row = t[STATE], packed(t)
  alike[asked] = p
  return p
end

local function insert_plain(p, spec)
  local id = next_id()
  local n = page(last)
  keep(new_rows, n, id, p.row)
  keep(new_specs, n, id, spec)
  opened[n] = (opened[n] or 0) + 1
  p.n = p.n + 1
  put(p.key, p.due or p.base + last, id)
  answer(NEW, id, p.state)
end

-- Who holds the keys, at one glance.
local holders, takers = {}, {}
local function look_up(keys)
  local ids, there = call('HMGET', prefix .. 'unique', unpack(keys)), {}
  for i, key in ipairs(keys) do
    if ids[i] then
      holders[key] = ids[i]
      there[#there + 1] = ids[i]
    end
  end
  load(there)
end

-- holder is the task that holds the key now, if there is one.
local function holder(key)
  local id = holders[key]
  local t = id and task(id)
  if not t then return nil end
  if t[EXPIRES] > 0 and t[EXPIRES] <= now and waiting(t[STATE]) then
    stop_waiting(t, DISCARDED, 'expired')
  elseif in_window(t) and t[ENDED] + window_of(t) <= now then
    close_window(t)
  else
    return t
  end
  holders[key] = nil
  return nil
end

-- update gives a waiting task what a newer spec says: its arguments, tags, priority and instant, and a fresh
-- budget of attempts (rule Q3).
local function update(t, priority, run_at, spec)
  withdraw(t)
  local id, n = t[ID], page(t[ID])
  local old = call('HGET', prefix .. 'specs:' .. n, id)
  for i, new in ipairs(new_specs[n] or {}) do
    if new == id then old = new_specs[n][i + 1] end
  end
  local args, tags = struct.unpack('<I4c0I4c0', spec)
  local _, _, rest = struct.unpack('<I4c0I4c0', old)
  keep(new_specs, n, id, struct.pack('<I4c0I4c0', #args, args, #tags, tags) .. string.sub(old, rest))
  t[PRIORITY], t[GRANTED], t[SNOOZES], t[RUN_AT] = priority, t[ATTEMPTS], 0, run_at
  touch(t)
  enter(t, t[STATE] == RETRYABLE and RETRYABLE or SCHEDULED)
  answer(UPDATED, id, t[STATE])
end

local function take_in(asked, spec)
  local lane, priority, run_at, delay, max_crashes, expires, unique, again, key, window, longest, kind_of_limit, max, name =
    struct.unpack(ASKED, asked)
  local there = unique > 0 and holder(key)
  if there and again > 0 and waiting(there[STATE]) then
    local at = due(run_at, delay)
    if again == 2 then at = math.min(now + delay, there[ENQUEUED] + longest) end
    return update(there, priority, at, spec)
  end
  -- A worker that has the other one has its arguments already: the newer task is one of its own, and takes the key (rule Q3).
  if there and not (again > 0 and there[UNIQUE] == UNTIL_STARTED) then return answer(DUPLICATE, there[ID], there[STATE]) end

  local id = next_id()
  local t = {
    id, false, false, false,
    0, 0, 0, 0, 0, unique, kind_of_limit, priority, lanes[lane], 0, 0, 0, 0, 0, max_crashes,
    now, due(run_at, delay), expires, 0, 0, 0, NO_WORDS,
  }
  rows[id] = t
  if unique > 0 or kind_of_limit > 0 then
    local l = named[name]
    t[MORE] = {key = key, window = window, limit_key = l and l.key or '', max = max, reason = '', stop = ''}
    if kind_of_limit > 0 then limits().resize(limits().limit(l.key), max, l.readable, '') end
  end
  if unique > 0 then holders[key], takers[key] = id, id end
  keep(new_specs, page(last), id, spec)
  watch_expiry(t)
  enter(t, SCHEDULED)
  answer(NEW, id, t[STATE])
end

local keys = {}
for i = from, #ARGV, 2 do
  local asked = ARGV[i]
  if #asked ~= PLAIN_SIZE and string.byte(asked, ASKED_UNIQUE) > 0 then
    keys[#keys + 1] = string.sub(asked, ASKED_KEY, ASKED_KEY + 15)
  end
end
if #keys > 0 then look_up(keys) end
for i = from, #ARGV, 2 do
  local asked, spec = ARGV[i], ARGV[i + 1]
  if #asked == PLAIN_SIZE then insert_plain(plain(asked), spec) else take_in(asked, spec) end
end

call('HSET', prefix .. 'queue', 'id', text(last))
for _, p in pairs(alike) do shift(p.lane, p.state, p.n) end
write('rows:', new_rows)
write('specs:', new_specs)
local taken = {}
for key, id in pairs(takers) do
  taken[#taken + 1] = key
  taken[#taken + 1] = id
end
if #taken > 0 then call('HSET', prefix .. 'unique', unpack(taken)) end
finish()
return reply

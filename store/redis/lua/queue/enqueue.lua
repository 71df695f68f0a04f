-- Takes in tasks of every form, one after the other, in one step (promises 16 and 17; Q1, Q3, Q5). new.lua stands
-- before it, and says what ARGV is. A key that occurs twice in a batch is decided in order: the second item meets the
-- first.
local new_specs = {}
local function keep(id, spec) new_specs[id] = spec end

-- answer adds one item's answer to the reply.
local function answer(what, id, state)
  local n = #reply
  reply[n + 1], reply[n + 2] = what * 16 + state, tonumber(id)
end

-- holder is the task that holds the key now, or nil. A holder that has expired, or whose window is over, ends here.
local function holder(key)
  local t = owner(key)
  if not t then return nil end
  if t[EXPIRES] > 0 and t[EXPIRES] <= now and waiting(t[STATE]) then
    stop_waiting(t, DISCARDED, 'expired')
  elseif in_window(t) and t[ENDED] + window_of(t) <= now then
    close_window(t)
  else
    return t
  end
  return nil
end

-- options is what a task's spec says besides arguments and tags; nil if nobody can read it.
local function options(id)
  local spec = new_specs[id] or call('HGET', prefix .. 'specs:' .. page(id), id) or ''
  local readable, _, _, rest = pcall(struct.unpack, '<I4c0I4c0', spec)
  return readable and string.sub(spec, rest) or nil
end

-- update gives a waiting task what a newer spec says: its arguments, tags, priority and instant, and a fresh budget
-- of attempts. It keeps its id (Q3).
local function update(t, priority, run_at, spec, kept)
  withdraw(t)
  local id = t[ID]
  local args, tags = struct.unpack('<I4c0I4c0', spec)
  keep(id, struct.pack('<I4c0I4c0', #args, args, #tags, tags) .. kept)
  t[PRIORITY], t[GRANTED], t[SNOOZES], t[RUN_AT] = priority, t[ATTEMPTS], 0, run_at
  touch(t)
  enter(t, t[STATE] == RETRYABLE and RETRYABLE or SCHEDULED)
  answer(UPDATED, id, t[STATE])
end

local asked_for = {}
-- unpacked is what is asked for, taken apart once for all items that ask for the same.
local function unpacked(asked)
  local a = asked_for[asked]
  if a then return a end
  a = {}
  if #asked == PLAIN_SIZE then
    a.subqueue, a.priority, a.run_at, a.delay, a.max_crashes = struct.unpack(PLAIN, asked)
    a.expires, a.unique, a.limit = 0, 0, 0
  else
    a.subqueue, a.priority, a.run_at, a.delay, a.max_crashes, a.expires, a.unique, a.again, a.window, a.longest, a.limit, a.slots, a.name =
      struct.unpack(ASKED, asked)
  end
  asked_for[asked] = a
  return a
end

-- insert makes a new task, declares its limit (Q5), and puts it where it waits.
local function insert(a, key, spec)
  last = last + 1
  local id = text(last)
  if last % 1000 == 0 or last == 1 then put('pages', page(last), page(last)) end
  local t = {
    id, false, false, false,
    0, 0, 0, 0, 0, a.unique, a.limit, a.priority, subqueues[a.subqueue], 0, 0, 0, 0, 0, a.max_crashes,
    now, due(a.run_at, a.delay), a.expires, 0, 0, 0, NO_WORDS,
  }
  rows[id] = t
  if a.unique > 0 or a.limit > 0 then
    local l = named[a.name]
    t[MORE] = {key = key, window = a.window, limit_key = l and l.key or '', max = a.slots, reason = '', stop = ''}
    if a.limit > 0 then limits().resize(limits().limit(l.key), a.slots, l.readable, '') end
  end
  keep(id, spec)
  watch_expiry(t)
  enter(t, SCHEDULED)
  answer(NEW, id, t[STATE])
  return id
end

-- take_in decides one item: new, a duplicate, or an update of a task that waits.
local function take_in(a, key, spec)
  local there = a.unique > 0 and holder(key)
  if there and a.again > 0 and waiting(there[STATE]) then
    local at = due(a.run_at, a.delay)
    if a.again == 2 then at = math.min(now + a.delay, there[ENQUEUED] + a.longest) end
    local kept = options(there[ID])
    if kept then return update(there, a.priority, at, spec, kept) end
    stop_waiting(there, DISCARDED, 'damaged')
    there = nil
  end
  -- A worker that has the other task has its arguments already: the newer one becomes a task of its own, and takes
  -- the key (Q3).
  if there and not (a.again > 0 and there[UNIQUE] == UNTIL_STARTED) then return answer(DUPLICATE, there[ID], there[STATE]) end

  local id = insert(a, key, spec)
  if a.unique > 0 then own(key, id) end
end

local keys = {}
for i = from, #ARGV, 2 do
  local asked = ARGV[i]
  if #asked > ASKED_SIZE then keys[#keys + 1] = string.sub(asked, ASKED_SIZE + 1) end
end
if #keys > 0 then
  look_up(keys)
  local there = {}
  for _, id in pairs(owners) do there[#there + 1] = id or nil end
  load(there)
end
for i = from, #ARGV, 2 do
  local asked = ARGV[i]
  take_in(unpacked(string.sub(asked, 1, ASKED_SIZE)), string.sub(asked, ASKED_SIZE + 1), ARGV[i + 1])
end

counters.id = last
for id, spec in pairs(new_specs) do add('HSET', 'specs:' .. page(id), id, spec) end
finish()
return reply

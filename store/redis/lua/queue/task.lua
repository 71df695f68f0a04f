-- A task is a row, which changes, and a spec, which no script looks into. A thousand neighbours share the hashes
-- 'rows:<id / 1000>' and 'specs:<id / 1000>'. So one command reads or writes a batch of them, and Admin can go
-- through all tasks by id. 'pages' is the index of those hashes, 'unfinished' how many unfinished tasks each has.
local SCHEDULED, AVAILABLE, BLOCKED, RUNNING, RETRYABLE = 1, 2, 3, 4, 5
local SUCCEEDED, FAILED, DISCARDED, CANCELED, CRASHED = 6, 7, 8, 9, 10

-- How a row says what its task holds or would hold.
local UNTIL_FINISHED, UNTIL_STARTED, STARTED = 1, 2, 3 -- row.unique; STARTED has let go of the key
local WAIT, DISCARD, DISPLACE, DISPLACED = 1, 2, 3, 4  -- row.limit; DISPLACED has asked for its slot, and waits like others

-- A row as scripts hold it is an array, since a table with names costs more than all else that is done to most tasks.
-- The fixed part is what struct packs by FORM; queue_row.go reads the same. The rest, which few tasks have, stays
-- packed until more asks for it.
local ID, CHANGED, MORE, PACKED = 1, 2, 3, 4
local STATE, FRONT, SUSPECT, BEGUN, TOLD, UNIQUE, LIMIT, PRIORITY = 5, 6, 7, 8, 9, 10, 11, 12
local SUBQUEUE, WORKER, ATTEMPTS, GRANTED, CRASHES, SNOOZES, MAX_CRASHES = 13, 14, 15, 16, 17, 18, 19
local ENQUEUED, RUN_AT, EXPIRES, FETCHED, ENDED, TOKEN, REST = 20, 21, 22, 23, 24, 25, 26
local FORM = '<BBBBBBBbI4I4I4I4I4I4I4dddddd'
local NO_WORDS = '\0\0\0\0' -- neither a reason nor why it is to stop

-- parse makes the array of a packed row.
local function parse(id, s)
  local t = {id, false, false, s, struct.unpack(FORM, s)}
  t[REST] = string.sub(s, t[REST])
  return t
end

-- more is the rest of a row: its unique key and window, its limit and what it declared of it, its words, and the
-- token of its last completion if it was given anew since.
local function more(t)
  local m = t[MORE]
  if m then return m end
  local rest, at = t[REST], 1
  m = {key = '', window = 0, limit_key = '', max = 0, reason = '', stop = ''}
  if t[UNIQUE] > 0 then m.key, m.window, at = struct.unpack('<c16d', rest, at) end
  if t[LIMIT] > 0 then m.limit_key, m.max, at = struct.unpack('<c32I4', rest, at) end
  m.reason, m.stop, at = struct.unpack('<I2c0I2c0', rest, at)
  if at <= #rest then m.completed = struct.unpack('<d', rest, at) end
  t[MORE] = m
  return m
end

-- wordless says that the rest is as long as one that ends with NO_WORDS: most need not be taken apart to know that.
local function wordless(t)
  return not t[MORE] and #t[REST] == 4 + (t[UNIQUE] > 0 and 24 or 0) + (t[LIMIT] > 0 and 36 or 0)
end

-- stop_of is why a task is to stop, or ''.
local function stop_of(t) return wordless(t) and '' or more(t).stop end

-- completed says whether a run of the task was completed under a token, as long as none was since. TOLD: its last one
-- was.
local function completed(t, token)
  if t[TOKEN] == token then return t[TOLD] == 1 end
  return t[TOLD] == 0 and not wordless(t) and more(t).completed == token
end

-- say sets a task's words.
local function say(t, field, words)
  if words ~= '' or not wordless(t) then more(t)[field] = words end
end

local function key_of(t) return t[MORE] and t[MORE].key or string.sub(t[REST], 1, 16) end

local function window_of(t) return t[MORE] and t[MORE].window or (struct.unpack('<d', t[REST], 17)) end

-- packed is the reverse of parse.
local function packed(t)
  local s, m = struct.pack(FORM, unpack(t, STATE, TOKEN)), t[MORE]
  if not m then return s .. t[REST] end
  if t[UNIQUE] > 0 then s = s .. struct.pack('<c16d', m.key, m.window) end
  if t[LIMIT] > 0 then s = s .. struct.pack('<c32I4', m.limit_key, m.max) end
  s = s .. struct.pack('<I2c0I2c0', #m.reason, m.reason, #m.stop, m.stop)
  return m.completed and s .. struct.pack('<d', m.completed) or s
end

-- What this script has read, and what it has yet to write. save plans the writes.
local rows, changed, depths, opened = {}, {}, {}, {}

local function page(id) return math.floor(id / 1000) end

-- grouped sorts ids by page.
local function grouped(ids)
  local pages = {}
  for _, id in ipairs(ids) do
    local n = page(id)
    local p = pages[n]
    if p then p[#p + 1] = id else pages[n] = {id} end
  end
  return pages
end

-- word_end is where a string ends that has its length in two bytes before it, or nil.
local function word_end(s, at)
  local low, high = string.byte(s, at, at + 1)
  return high and at + 2 + low + 256 * high
end

-- sound says that a packed row can be taken apart: somebody may have written into it.
local function sound(s)
  local state, _, _, _, _, unique, limit = string.byte(s, 1, 7)
  if not limit or state < SCHEDULED or state > CRASHED then return false end
  local reason = word_end(s, 85 + (unique > 0 and 24 or 0) + (limit > 0 and 36 or 0))
  local stop = reason and word_end(s, reason)
  return stop and (stop == #s + 1 or stop + 7 <= #s)
end

-- Rows that are not, by id. No script takes them for tasks; Admin shows and deletes them.
local unsound = {}

-- load reads rows that this script has not seen; an id without a task is false.
local function load(ids)
  local unseen = {}
  for _, id in ipairs(ids) do
    if rows[id] == nil then unseen[#unseen + 1] = id end
  end
  for n, p in pairs(grouped(unseen)) do
    for id, row in pairs(fields('rows:' .. n, p)) do
      if row and not sound(row) then row, unsound[id] = false, row end
      rows[id] = row and parse(id, row)
    end
  end
end

local function task(id)
  if rows[id] == nil then load({id}) end
  return rows[id]
end

-- touch marks a row as changed.
local function touch(t)
  if not t[CHANGED] then
    t[CHANGED] = true
    changed[#changed + 1] = t
  end
end

-- count_state counts a task of a sub-queue in or out of a state.
local function count_state(subqueue, state, by)
  if state == 0 then return end
  local of = depths[subqueue]
  if not of then
    of = {}
    depths[subqueue] = of
  end
  of[state] = (of[state] or 0) + by
end

local function final(state) return state >= SUCCEEDED end
local function waiting(state) return state ~= RUNNING and state < SUCCEEDED end

-- recount keeps count of a page's unfinished tasks; state 0: there is no such task.
local function recount(t, was, is)
  local before, after = was > 0 and was < SUCCEEDED, is > 0 and is < SUCCEEDED
  if before == after then return end
  local n = page(t[ID])
  opened[n] = (opened[n] or 0) + (after and 1 or -1)
end

-- become gives a task another state, in its row and in all counts.
local function become(t, state)
  recount(t, t[STATE], state)
  count_state(t[SUBQUEUE], t[STATE], -1)
  count_state(t[SUBQUEUE], state, 1)
  t[STATE] = state
  touch(t)
end

local subqueue_names = {}
local function subqueue_name(n)
  local name = subqueue_names[n]
  if not name then
    name = call('HGET', prefix .. 'subqueues', n) or '\31' -- it was forgotten
    subqueue_names[n] = name
  end
  return name
end

local function queue_of(subqueue) return (string.match(subqueue_name(subqueue), '^[^\31]*')) end

-- subqueue_of is the number of a sub-queue; a new sub-queue gets the next number.
local new_subqueues = {}
local function subqueue_of(name)
  local n = new_subqueues[name] or call('HGET', prefix .. 'subqueue-of', name)
  if not n then
    n = counter('subqueue')
    new_subqueues[name] = n
    add('HSET', 'subqueue-of', name, n)
    add('HSET', 'subqueues', n, name)
  end
  n = tonumber(n)
  subqueue_names[n] = name
  return n
end

-- forget_subqueue removes a sub-queue that has lost its last task. Its number is never another's.
local function forget_subqueue(subqueue)
  remove('HDEL', 'subqueue-of', subqueue_name(subqueue))
  remove('HDEL', 'subqueues', subqueue)
  mark('offered:' .. queue_of(subqueue), subqueue, false)
  mark('dues:' .. queue_of(subqueue), subqueue, false)
  mark('dues', subqueue, false)
end

-- write_counts adds to the numbers of a hash those that changed, by field, and says whether all of its fields
-- are gone.
local function write_counts(key, changes)
  local names = {}
  for name, by in pairs(changes) do
    if by ~= 0 then names[#names + 1] = name end
  end
  local gone, come = 0, 0
  for name, was in pairs(fields(key, names)) do
    local is = num(was) + changes[name]
    if is == 0 then
      remove('HDEL', key, name)
      gone = gone + (was and 1 or 0)
    else
      add('HSET', key, name, text(is))
      come = come + (was and 0 or 1)
    end
  end
  return gone > 0 and come == 0 and call('HLEN', prefix .. key) == gone
end

-- save plans the writes of rows that changed, and of counts.
local function save()
  local pages = {}
  for _, t in ipairs(changed) do
    if rows[t[ID]] then -- else it was deleted
      t[PACKED] = packed(t)
      local n = page(t[ID])
      local p = pages[n]
      if not p then
        p = values(additions, 'HSET', 'rows:' .. n)
        pages[n] = p
      end
      n = #p
      p[n + 1], p[n + 2] = t[ID], t[PACKED]
    end
  end
  for subqueue, changes in pairs(depths) do
    if write_counts('depth:' .. subqueue, changes) then forget_subqueue(subqueue) end
  end
  write_counts('unfinished', opened)
end

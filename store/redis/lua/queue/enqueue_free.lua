-- Takes in tasks that depend on no other task, as most do: plain ones, and those whose unique key is free. If a key
-- is held, or occurs twice in the batch, no task is taken in and nothing answered, and the client sends enqueue.lua,
-- which knows all cases.
--
-- This is the hot path. It uses few functions, since the server makes each function anew at every call, which is most
-- of what a small batch costs. What the tasks of a batch have in common, their form, is made once.
local keys, seen = {}, {}
for i = from, #ARGV, 2 do
  local asked = ARGV[i]
  if #asked > PLAIN_SIZE then keys[#keys + 1] = string.sub(asked, ASKED_SIZE + 1) end
end
if #keys > 0 then
  local holders = fields('unique', keys)
  for _, key in ipairs(keys) do
    if holders[key] or seen[key] then return reply end
    seen[key] = true
  end
end

local forms, pages, taken = {}, {}, {}
local at, new_rows, new_specs
local format = string.format
for i = from, #ARGV, 2 do
  local asked, key = ARGV[i], ''
  if #asked > PLAIN_SIZE then asked, key = string.sub(asked, 1, ASKED_SIZE), string.sub(asked, ASKED_SIZE + 1) end
  local f = forms[asked]
  if not f then
    local subqueue, priority, run_at, delay, max_crashes, _, unique, _, window = struct.unpack(key == '' and PLAIN or ASKED, asked)
    if key == '' then unique = 0 end
    local t = {
      0, false, false, false,
      AVAILABLE, 0, 0, 0, 0, unique, 0, priority, subqueues[subqueue], 0, 0, 0, 0, 0, max_crashes,
      now, due(run_at, delay), 0, 0, 0, 0, '',
    }
    f = {subqueue = t[SUBQUEUE], queue = {}}
    if t[RUN_AT] <= now then
      f.key, f.base = ready_key(t), sort_key(t)
    else
      t[STATE] = SCHEDULED
      f.key, f.due = 'due:' .. f.subqueue, t[RUN_AT]
    end
    f.state = t[STATE]
    f.row, f.rest = struct.pack(FORM, unpack(t, STATE, TOKEN)), unique > 0 and struct.pack('<d', window) .. NO_WORDS or NO_WORDS
    forms[asked] = f
  end

  last = last + 1
  local id = format('%.0f', last)
  local n = (last - last % 1000) / 1000
  if n ~= at then
    at, new_rows, new_specs = n, {}, {}
    pages[n] = {rows = new_rows, specs = new_specs}
    if last % 1000 == 0 or last == 1 then add('ZADD', 'pages', n, n) end
  end
  n = #new_rows
  new_rows[n + 1], new_rows[n + 2] = id, f.row .. key .. f.rest
  new_specs[n + 1], new_specs[n + 2] = id, ARGV[i + 1]
  n = #f.queue
  f.queue[n + 1], f.queue[n + 2] = f.due or f.base + last, id
  n = #reply
  reply[n + 1], reply[n + 2] = NEW * 16 + f.state, last
  if key ~= '' then
    n = #taken
    taken[n + 1], taken[n + 2] = key, id
  end
end

for _, f in pairs(forms) do
  if f.due then sooner[f.subqueue] = math.min(sooner[f.subqueue] or f.due, f.due) else offered[f.subqueue] = true end
end
announce()
counters.id = last
commit(function()
  for n, p in pairs(pages) do
    call('HINCRBY', prefix .. 'unfinished', n, #p.rows / 2)
    write('HSET', 'rows:' .. n, p.rows)
    write('HSET', 'specs:' .. n, p.specs)
  end
  write('HSET', 'unique', taken)
  for _, f in pairs(forms) do
    write('ZADD', f.key, f.queue)
    call('HINCRBY', prefix .. 'depth:' .. f.subqueue, f.state, #f.queue / 2)
  end
end)
return reply

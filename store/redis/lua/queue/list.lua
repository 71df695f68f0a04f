-- Reads tasks by id for Admin, a bounded number of them (promise 26): a few pages of ids, or a thousand of each rare
-- final state.
--
-- ARGV: after, before (0: no bound), 1 for the newest first, since when it ended or else was enqueued, how many rows
-- at most, queue, kind ('' for any), three strings that the spec must contain ('' for none), then states (none: any).
-- Answers: now, the id up to which it looked (0: there are no more), {subqueue, name, …}, {worker, its hash, …}, then
-- of each task that was selected: id, row, spec.
local low, high, newest, since = tonumber(ARGV[1]) + 1, tonumber(ARGV[2]) - 1, ARGV[3] == '1', tonumber(ARGV[4])
local most, queue, kind = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local needles = {}
for i = 8, 10 do
  if ARGV[i] ~= '' then needles[#needles + 1] = ARGV[i] end
end
local states, only_open, only_rare = {}, #ARGV > 10, #ARGV > 10
for i = 11, #ARGV do
  local s = tonumber(ARGV[i])
  states[s] = true
  if s >= SUCCEEDED then only_open = false end
  if s <= SUCCEEDED then only_rare = false end
end
local any_state = next(states) == nil
if high < 0 then high = 2 ^ 53 end

-- range reads the scores from one to another of a sorted set, in the order of the list.
local function range(key, from, to, count)
  if newest then return call('ZREVRANGEBYSCORE', prefix .. key, to, from, 'LIMIT', 0, count) end
  return call('ZRANGEBYSCORE', prefix .. key, from, to, 'LIMIT', 0, count)
end

local subqueues = {}
local function subqueue_selected(subqueue)
  if subqueues[subqueue] == nil then
    local q, k = string.match(subqueue_name(subqueue), '^([^\31]*)\31(.*)$')
    subqueues[subqueue] = (queue == '' or q == queue) and (kind == '' or k == kind)
  end
  return subqueues[subqueue]
end

local function selected(t)
  return (any_state or states[t[STATE]]) and (final(t[STATE]) and t[ENDED] or t[ENQUEUED]) >= since and subqueue_selected(t[SUBQUEUE])
end

local specs = {}
local function load_specs(ids)
  for n, p in pairs(grouped(ids)) do
    for id, found in pairs(fields('specs:' .. n, p)) do specs[id] = found or '' end
  end
end

local function contains(spec)
  for _, needle in ipairs(needles) do
    if not string.find(spec, needle, 1, true) then return false end
  end
  return true
end

-- Candidates come in the order of the list, a bounded number of them. looked is the id up to which all were
-- considered.
local found, looked, more = {}, 0, false
local function consider(ids)
  load(ids)
  local fit = {}
  for _, id in ipairs(ids) do
    if rows[id] and selected(rows[id]) or unsound[id] and any_state and since == 0 and queue == '' and kind == '' then fit[#fit + 1] = id end
  end
  if #needles > 0 then load_specs(fit) end
  for _, id in ipairs(fit) do
    if #needles == 0 or contains(specs[id]) then
      if #found == most then
        more, looked = true, tonumber(found[most][ID])
        return
      end
      found[#found + 1] = rows[id] or {id, false, false, unsound[id], [SUBQUEUE] = 0, [WORKER] = 0}
    end
  end
  if #ids > 0 then looked = tonumber(ids[#ids]) end
end

-- rare finds tasks by the indexes of the rare final states.
local function rare()
  local ids = {}
  for s in pairs(states) do
    for _, id in ipairs(range('final:' .. s, text(low), text(high), 1000)) do ids[#ids + 1] = id end
  end
  table.sort(ids, function(x, y)
    if newest then x, y = y, x end
    return tonumber(x) < tonumber(y)
  end)
  local cut = math.min(#ids, 1000) -- beyond it one of the states may have more
  more = #ids >= 1000
  consider({unpack(ids, 1, cut)})
end

-- few is how many pages one look goes through: 4,000 ids, or half of them where each spec must be read as well.
local few = #needles > 0 and 2 or 4

-- The ids of a page that are asked for, and the id that a list reaches last, of a page and of all.
local function first_of(n) return math.max(n * 1000, low) end
local function last_of(n) return math.min(n * 1000 + 999, high) end
local ends, far = last_of, high
if newest then ends, far = first_of, low end

-- next_pages are the next few pages that hold tasks, and the id up to which there are no others. For open states only,
-- pages without unfinished tasks are passed over.
local function next_pages()
  local pages = range('pages', page(low), page(high), only_open and 500 or few)
  if not only_open then return pages, #pages == few and ends(pages[few]) or far end
  local open, some = fields('unfinished', pages), {}
  for _, n in ipairs(pages) do
    if open[n] then some[#some + 1] = n end
    if #some == few then return some, ends(n) end
  end
  return some, #pages == 500 and ends(pages[500]) or far
end

-- by_page goes through the ids of those pages.
local function by_page()
  local pages, all = next_pages()
  for _, n in ipairs(pages) do
    local ids, from, to, step = {}, first_of(n), last_of(n), 1
    if newest then from, to, step = to, from, -1 end
    for id = from, to, step do ids[#ids + 1] = text(id) end
    consider(ids)
    if more then return end
  end
  looked = all
  more = looked ~= far
end

if only_rare then rare() else by_page() end

local names, workers, reply, named = {}, {}, {now, more and looked or 0, {}, {}}, {}
local ids = {}
for i, t in ipairs(found) do ids[i] = t[ID] end
if #needles == 0 then load_specs(ids) end
for _, t in ipairs(found) do
  if t[SUBQUEUE] > 0 and not named[t[SUBQUEUE]] then
    named[t[SUBQUEUE]] = true
    names[#names + 1], names[#names + 2] = t[SUBQUEUE], subqueue_name(t[SUBQUEUE])
  end
  local w = 'w' .. t[WORKER]
  if t[WORKER] > 0 and not named[w] then
    named[w] = true
    workers[#workers + 1], workers[#workers + 2] = t[WORKER], worker_info(t[WORKER])
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = tonumber(t[ID]), t[PACKED], specs[t[ID]] or ''
end
reply[3], reply[4] = names, workers
return reply

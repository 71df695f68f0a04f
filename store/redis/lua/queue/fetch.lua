-- Gives tasks to a worker (promises 18 and 19; L1, Q4, Q5, Q6). For each queue in order it makes due tasks available,
-- then gives the first ones across all sub-queues in the order of their sort keys; of suspects at most one. A task
-- with a limit is given only if a slot is free, else it is discarded, displaces, or steps back, as it declared.
--
-- One script is one step: nothing is locked and no other fetch is beside it. STEP bounds what it does beside giving;
-- the answer says when to ask again.
--
-- ARGV: the lease's name, its hold, not_after, max, '1' for a suspect, '1' for one that crashed a worker before, how
-- many bytes of specs (0: any), how many kinds and the kinds, then the queues. Answers: now, 1 or why not, when the
-- next task is due, {subqueue, name, …}, then of each task: id, row, spec.
local name, hold, not_after, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local TOO_LATE, NO_LEASE = 2, 3
if late(not_after) then return {now, TOO_LATE} end
if not live(name, hold) then return {now, NO_LEASE} end

local worker = worker_of(hold)
if not worker or not call('ZSCORE', prefix .. 'workers', worker) then worker = join(name, hold) end
local suspects = ARGV[5] == '1' and 1 or 0
local crashers = ARGV[6] == '1'

local bytes = tonumber(ARGV[7])

local kinds, queues_from = nil, 9 + tonumber(ARGV[8])
if queues_from > 9 then
  kinds = {}
  for i = 9, queues_from - 1 do kinds[ARGV[i]] = true end
end

local paused = pauses()

-- The rates of kinds. Where there are few, all are read at once.
local rates, how_many = {}, call('HLEN', prefix .. 'rates')
-- know_rate reads a rate. A rate is a bucket that holds 'burst' µs; each task takes 'each' µs out, and 'full' is when
-- it has filled up again. At most 'most' are taken in any 'per' µs. 'taken' are those of the last 'per' µs, counted in
-- slices of it, each with the instant of its last one: 'at:n,…', in order. A slice counts until that one is old
-- enough.
local function know_rate(line)
  local each, burst, full, per, most, taken, kind = string.match(line, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  local r = {each = tonumber(each), burst = tonumber(burst), full = math.max(tonumber(full), now), per = tonumber(per), most = tonumber(most), taken = {}, n = 0}
  for at, n in string.gmatch(taken, '(%d+):(%d+)') do
    at, n = tonumber(at), tonumber(n)
    if at > now - r.per then
      r.taken[#r.taken + 1] = {at, n}
      r.n = r.n + n
    end
  end
  rates[kind] = r
end
if how_many > 0 and how_many <= MOST_SUBQUEUES then
  for _, line in ipairs(call('HVALS', prefix .. 'rates')) do know_rate(line) end
end

-- rate_of is the rate of a kind, or false.
local function rate_of(kind)
  if how_many > MOST_SUBQUEUES and rates[kind] == nil then
    local line = call('HGET', prefix .. 'rates', kind)
    if line then know_rate(line) else rates[kind] = false end
  end
  return rates[kind]
end

-- allowed is how many tasks a rate allows now.
local function allowed(rate)
  return math.min(math.floor((rate.burst - (rate.full - now)) / rate.each), rate.most - rate.n)
end

-- use_rate takes one.
local function use_rate(r)
  r.full, r.n, r.used = r.full + r.each, r.n + 1, true
  local last, slice = r.taken[#r.taken], math.max(math.floor(r.per / 16), 1)
  if last and math.floor(last[1] / slice) >= math.floor(now / slice) then
    last[1], last[2] = math.max(last[1], now), last[2] + 1
  else
    r.taken[#r.taken + 1] = {now, 1}
  end
end

-- next_of is when a rate allows the next task.
local function next_of(r)
  local at, n = r.full + r.each - r.burst, 0
  for i = #r.taken, 1, -1 do
    n = n + r.taken[i][2]
    if n >= r.most then return math.max(at, r.taken[i][1] + r.per) end
  end
  return at
end

-- rate_line is the reverse of know_rate.
local function rate_line(r, kind)
  local taken = {}
  for i, x in ipairs(r.taken) do taken[i] = text(x[1]) .. ':' .. text(x[2]) end
  return table.concat({text(r.each), text(r.burst), text(r.full), text(r.per), text(r.most), taken[1] and table.concat(taken, ',') or '-', kind}, ' ')
end

local given = {}

-- sates says whether the spec of a task is too large to be given as well. The first task is given, whatever its size.
local size, sated = 0, false
local function sates(t)
  if bytes == 0 then return false end
  local n = call('HSTRLEN', prefix .. 'specs:' .. page(t[ID]), t[ID])
  if #given > 0 and size + n > bytes then
    sated = true
    return true
  end
  size = size + n
  return false
end

-- give hands a task to the worker. Its token is larger than the last and than the clock (L10).
local function give(t, rate)
  if t[TOLD] == 1 then more(t).completed = t[TOKEN] end
  t[TOKEN] = math.max(t[TOKEN] + 1, now)
  t[WORKER], t[FETCHED], t[BEGUN], t[TOLD] = worker, now, 0, 0
  say(t, 'stop', '')
  unwatch_expiry(t)
  become(t, RUNNING)
  if t[LIMIT] > 0 then limits().take_slot(t) end
  if rate then use_rate(rate) end
  if t[SUSPECT] == 1 then suspects = 0 end
  left = left - 1
  given[#given + 1] = t
end

-- displace is Replace at a full limit (OnContention: Displace): running tasks that displace are to stop, and older
-- ones that wait are superseded. A task that supersedes very many does so in steps, and stays ready meanwhile.
local function displace(t)
  local l = limits().limit_of(t)
  local displaceable = members_of('displaceable:' .. l.key, STEP)
  load(displaceable)
  for _, id in ipairs(displaceable) do
    local r = rows[id]
    spend(1)
    if r and r[STATE] == RUNNING and stop_of(r) == '' then
      more(r).stop = 'replaced'
      touch(r)
      mark('asked:' .. r[WORKER], id, true)
    end
    mark('displaceable:' .. l.key, id, false)
  end
  local displacing = zset('displacing:' .. l.key)
  local id = first(displacing)
  while id and tonumber(id) < tonumber(t[ID]) and not enough() do
    take_first(displacing)
    spend(1)
    if task(id) then stop_waiting(rows[id], DISCARDED, 'superseded') end
    id = first(displacing)
  end
  if #displaceable == STEP or id and tonumber(id) < tonumber(t[ID]) then return offer(t) end
  t[LIMIT] = DISPLACED
  limits().line_up(t)
end

-- Tasks with a limit whose slots are held back (L9). They are put back at the end. From a sub-queue with much of that
-- nothing more is picked, so that the others have their turn.
local waiting, clogged, MUCH = {}, {}, 50

-- dispatch decides about a task that was taken from the ready ones: it is given, or ends, or waits on.
local function dispatch(t, rate)
  local full = t[LIMIT] > 0 and limits().free(limits().limit_of(t)) == 0
  if t[EXPIRES] > 0 and t[EXPIRES] <= now then
    stop_waiting(t, DISCARDED, 'expired')
  elseif t[LIMIT] > 0 and held_until() > 0 then
    waiting[#waiting + 1] = t
    clogged[t[SUBQUEUE]] = (clogged[t[SUBQUEUE]] or 0) + 1
  elseif not full then
    return give(t, rate)
  elseif t[LIMIT] == DISCARD then
    stop_waiting(t, DISCARDED, 'overlap')
  elseif t[LIMIT] == DISPLACE then
    displace(t)
  else
    limits().step_back(limits().line(limits().limit_of(t), t[SUBQUEUE]), t[ID])
  end
  spend(1)
end

-- head is the sort key of a source's first task that may still be picked.
local function head(s)
  if s.cap and s.cap.n <= 0 or s.rate and s.rate.n <= 0 then return nil end
  local _, score = first(s.ready)
  return score
end

-- pick takes the next n tasks of a queue in order out of its sources: a merge of sorted sets.
local function pick(sources, n)
  local s = sources[1]
  if not sources[2] and not s.suspect and not s.limited then return take_some(s.ready, n) end
  local one_suspect, ids, rate_left = {n = suspects}, {}, {}
  for _, s in ipairs(sources) do
    s.ready.size = math.max(math.ceil(n / #sources), math.min(n, 8))
    if s.suspect then s.cap, s.ready.size = one_suspect, 1 end
    if s.limited then
      rate_left[s.kind] = rate_left[s.kind] or {n = allowed(rates[s.kind])}
      s.rate = rate_left[s.kind]
    end
  end
  while #ids < n do
    local best, best_rank, second
    for _, s in ipairs(sources) do
      local r = head(s)
      if r and (not best or r < best_rank) then
        second, best, best_rank = best_rank, s, r
      elseif r and (not second or r < second) then
        second = r
      end
    end
    if not best then break end
    repeat -- as long as it is the best, the others need not be asked
      ids[#ids + 1] = take_first(best.ready)
      if best.cap then best.cap.n = best.cap.n - 1 end
      if best.rate then best.rate.n = best.rate.n - 1 end
      local r = #ids < n and head(best)
    until not r or second and r > second
  end
  return ids
end

-- put_back makes tasks ready again that were picked in vain.
local function put_back(ids, from)
  for i = from, #ids do
    local t = rows[ids[i]]
    if t and t[STATE] == AVAILABLE then put(ready_key(t), sort_key(t), t[ID]) end
  end
end

-- from gives what a queue has, the first in order first. If a task that was met makes another one available, the
-- order has changed: the rest goes back, and few are picked at a time for a while.
local function from(sources)
  local batch = left
  while left > 0 and not sated and not enough() do
    if next(clogged) then
      local open = {}
      for _, s in ipairs(sources) do
        if (clogged[tonumber(s.subqueue)] or 0) < MUCH then open[#open + 1] = s end
      end
      sources = open
      if not sources[1] then return end
      batch = math.min(batch, MUCH)
    end
    local ids = pick(sources, math.min(batch, left))
    if #ids == 0 then return end
    load(ids)
    batch = batch * 2
    for i, id in ipairs(ids) do
      local t, before = rows[id], offers
      if t and t[STATE] == AVAILABLE and sates(t) then
        put_back(ids, i)
        break
      elseif t and t[STATE] == AVAILABLE then
        dispatch(t, how_many > 0 and rate_of(string.match(subqueue_name(t[SUBQUEUE]), '[^\31]*$')))
      else
        spend(1)
      end
      if offers ~= before or enough() then
        put_back(ids, i + 1)
        batch = 4
        break
      end
    end
  end
end

local next_due
-- due_at remembers the earliest instant at which the caller should ask again.
local function due_at(at)
  if at and (not next_due or at < next_due) then next_due = at end
end

-- numbers are the sub-queues of a queue in an index. Of very many, those of the kinds that this worker knows are
-- looked up, or some are drawn at random: the others have their turn in another fetch.
local function numbers(index, queue)
  local key = prefix .. index .. ':' .. queue
  if call('SCARD', key) <= MOST_SUBQUEUES then return call('SMEMBERS', key) end
  due_at(now)
  if not kinds then return call('SRANDMEMBER', key, MOST_SUBQUEUES) end
  local names, found = {}, {}
  for kind in pairs(kinds) do names[#names + 1] = queue .. '\31' .. kind end
  for _, n in pairs(fields('subqueue-of', names)) do
    if n and call('SISMEMBER', key, n) == 1 then found[#found + 1] = n end
  end
  return found
end

-- subqueues_in are those of them that this worker may fetch from now.
local function subqueues_in(index, queue)
  local found = {}
  for _, subqueue in ipairs(numbers(index, queue)) do
    local kind = string.match(subqueue_name(subqueue), '[^\31]*$')
    if (not kinds or kinds[kind]) and not paused(queue, kind) then found[#found + 1] = {subqueue = subqueue, kind = kind} end
  end
  return found
end

-- ready_subqueues are the sub-queues with ready tasks: by the index, or because tasks came due in this script.
local function ready_subqueues(queue)
  local found, seen = subqueues_in('offered', queue), {}
  for _, o in ipairs(found) do seen[tonumber(o.subqueue)] = true end
  for subqueue in pairs(offered) do
    if not seen[tonumber(subqueue)] and queue_of(subqueue) == queue then
      found[#found + 1] = {subqueue = subqueue, kind = string.match(subqueue_name(subqueue), '[^\31]*$')}
    end
  end
  return found
end

-- has_any says whether a sorted set has anything.
local function has_any(z) return next(z.add) or call('ZCARD', prefix .. z.key) > z.taken end

local dues = 0
for i = queues_from, #ARGV do
  local queue = ARGV[i]
  for _, d in ipairs(subqueues_in('dues', queue)) do
    dues = dues + make_due(d.subqueue, STEP - dues)
    local z = zset('due:' .. d.subqueue)
    local next_one = call('ZRANGE', prefix .. z.key, z.taken, z.taken, 'WITHSCORES')
    due_at(next_one[2] and tonumber(next_one[2]))
  end
  local sources = {}
  for _, o in ipairs(ready_subqueues(queue)) do
    local any = false
    for _, class in ipairs({'ready:', 'suspect:', 'crasher:'}) do
      local s = {subqueue = o.subqueue, ready = zset(class .. o.subqueue), kind = o.kind, limited = how_many > 0 and rate_of(o.kind), suspect = class ~= 'ready:'}
      if has_any(s.ready) then
        any = true
        if not s.suspect or suspects == 1 and (crashers or class == 'suspect:') then sources[#sources + 1] = s end
      end
    end
    if not any then mark('offered:' .. queue, o.subqueue, false) end
  end
  if #sources > 0 and left > 0 and not sated then from(sources) end
  -- A task that a rate holds back is asked for again when it may go.
  for _, s in ipairs(sources) do
    local r = s.limited
    if r and allowed(r) < 1 then due_at(next_of(r)) end
  end
end
if left > 0 and #waiting == 0 and call('EXISTS', prefix .. 'untidy') == 1 and limits().go_on(20) then due_at(now) end
-- More was passed over: ask again at once. Not if slots are held back, or it would be asked for again and again.
if left > 0 and enough() and #waiting == 0 then due_at(now) end
if sated then due_at(now) end
for _, t in ipairs(waiting) do
  if t[STATE] == AVAILABLE then put(ready_key(t), sort_key(t), t[ID]) end
end
if #waiting > 0 then due_at(held_until()) end

for kind, r in pairs(rates) do
  if r and r.used then add('HSET', 'rates', kind, rate_line(r, kind)) end
end
local specs, names, named = {}, {}, {}
local has = marks('running:' .. worker)
for _, t in ipairs(given) do
  has[t[ID]] = true
  if not named[t[SUBQUEUE]] then
    named[t[SUBQUEUE]] = true
    names[#names + 1] = t[SUBQUEUE]
    names[#names + 1] = subqueue_name(t[SUBQUEUE])
  end
end
local ids = {}
for i, t in ipairs(given) do ids[i] = t[ID] end
for n, p in pairs(grouped(ids)) do
  for id, spec in pairs(fields('specs:' .. n, p)) do specs[id] = spec end
end
if left > 0 then
  for i = queues_from, #ARGV do mark('idle', ARGV[i], true) end
end
finish()

local reply = {now, 1, next_due or 0, names}
if #ids == 0 then return reply end
for _, t in ipairs(given) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = tonumber(t[ID]), t[PACKED], specs[t[ID]] or ''
end
return reply

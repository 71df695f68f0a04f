-- ARGV: the lease's name, its hold, not_after, max, '1' for a suspect, '1' for a charged one, how many kinds
-- and the kinds, then the queues. Answers: now, 1 or why not, when the next one is due, {lane, name, …},
-- then of each task: id, row, spec.
local name, hold, not_after, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local TOO_LATE, NO_LEASE = 2, 3
if late(not_after) then return {now, TOO_LATE} end
if not live(name, hold) then return {now, NO_LEASE} end

local worker = worker_of(hold)
if not worker or not call('ZSCORE', prefix .. 'overseen', worker) then worker = join(name, hold) end
local suspects = ARGV[5] == '1' and 1 or 0
local charged = ARGV[6] == '1'

local kinds, queues_from = nil, 8 + tonumber(ARGV[7])
if queues_from > 8 then
  kinds = {}
  for i = 8, queues_from - 1 do kinds[ARGV[i]] = true end
end

local paused = pauses()

-- A rate is a bucket: 'full' is when it has filled up, each task empties it by 'each' µs, and it holds 'burst' µs.
local rates = {}
for _, line in ipairs(call('HVALS', prefix .. 'rates')) do
  local each, burst, full, kind = string.match(line, '^(%d+) (%d+) (%d+) (.*)$')
  rates[kind] = {each = tonumber(each), burst = tonumber(burst), full = math.max(tonumber(full), now), used = false}
end

local any_rate = next(rates) ~= nil

local function allowed(rate)
  return math.floor((rate.burst - (rate.full - now)) / rate.each)
end

local given, looked, rearranged = {}, 0, false

local function give(t, rate)
  if t[TOLD] == 1 then more(t).completed = t[TOKEN] end
  t[TOKEN] = math.max(t[TOKEN] + 1, now)
  t[WORKER], t[FETCHED], t[BEGUN], t[TOLD] = worker, now, 0, 0
  say(t, 'stop', '')
  unwatch_expiry(t)
  become(t, RUNNING)
  if t[LIMIT] > 0 then limits().take_slot(t) end
  if rate then rate.full, rate.used = rate.full + rate.each, true end
  if t[SUSPECT] == 1 then suspects = 0 end
  left = left - 1
  given[#given + 1] = t
end

-- displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded. One
-- that supersedes very many does so in steps, and stays where it is meanwhile.
local function displace(t)
  local l = limits().limit_of(t)
  for _, id in ipairs(call('SMEMBERS', prefix .. 'slots:' .. l.key)) do
    local r = task(id)
    if r and r[LIMIT] >= DISPLACE and stop_of(r) == '' then
      more(r).stop = 'replaced'
      touch(r)
      call('SADD', prefix .. 'asked:' .. r[WORKER], id)
    end
  end
  settle()
  local older = call('ZRANGEBYSCORE', prefix .. 'rivals:' .. l.key, '-inf', '(' .. t[ID], 'LIMIT', 0, 500)
  load(older)
  for _, id in ipairs(older) do
    if rows[id] then stop_waiting(rows[id], DISCARDED, 'superseded') end
  end
  if #older == 500 then return offer(t) end
  t[LIMIT] = DISPLACED
  limits().line(t)
end

-- meet gives a task that was taken from its shelf, or does with it what its time or its limit says.
local function meet(t, rate)
  local full = t[LIMIT] > 0 and limits().free(limits().limit_of(t)) == 0
  if t[EXPIRES] > 0 and t[EXPIRES] <= now then
    stop_waiting(t, DISCARDED, 'expired')
  elseif not full then
    return give(t, rate)
  elseif t[LIMIT] == DISCARD then
    stop_waiting(t, DISCARDED, 'overlap')
  elseif t[LIMIT] == DISPLACE then
    displace(t)
  else
    limits().step_back(limits().door(limits().limit_of(t), t[LANE]), t[ID])
  end
  rearranged = true
end

-- A source is a shelf, of which a page is known. What is picked of it goes from the shelf when the picking is over.
local function look(s)
  s.seen = call('ZRANGE', prefix .. s.key, s.picked, s.picked + s.page - 1, 'WITHSCORES')
  s.at = 1
end

-- pick_alone is pick where there is nothing to compare.
local function pick_alone(key, n)
  local ids = call('ZRANGE', prefix .. key, 0, n - 1)
  if #ids > 0 then call('ZREMRANGEBYRANK', prefix .. key, 0, #ids - 1) end
  return ids
end

local function head(s)
  if s.cap and s.cap.n <= 0 or s.rate and s.rate.n <= 0 then return nil end
  if s.at > #s.seen and #s.seen > 0 then look(s) end
  return s.seen[s.at + 1] and tonumber(s.seen[s.at + 1])
end

-- pick is the next tasks of a queue in order, at most n, out of their shelves.
local function pick(sources, n)
  settle()
  local s = sources[1]
  if not sources[2] and not s.suspect and not s.limited then return pick_alone(s.key, n) end
  local one_suspect, ids, rate_left = {n = suspects}, {}, {}
  for _, s in ipairs(sources) do
    s.picked, s.page = 0, math.max(math.ceil(n / #sources), math.min(n, 8))
    if s.suspect then s.cap, s.page = one_suspect, 1 end
    if s.limited then
      rate_left[s.kind] = rate_left[s.kind] or {n = allowed(rates[s.kind])}
      s.rate = rate_left[s.kind]
    end
    look(s)
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
      ids[#ids + 1] = best.seen[best.at]
      best.at, best.picked = best.at + 2, best.picked + 1
      if best.cap then best.cap.n = best.cap.n - 1 end
      if best.rate then best.rate.n = best.rate.n - 1 end
      local r = #ids < n and head(best)
    until not r or second and r > second
  end
  for _, s in ipairs(sources) do
    if s.picked > 0 then call('ZREMRANGEBYRANK', prefix .. s.key, 0, s.picked - 1) end
  end
  return ids
end

-- from gives what there is in a queue, the first in order first.
local function from(sources)
  while left > 0 and looked < 2000 do
    local ids = pick(sources, left)
    if #ids == 0 then return end
    load(ids)
    rearranged = false
    for i, id in ipairs(ids) do
      local t = rows[id] or {}
      looked = looked + 1
      if rearranged then
        -- What was met has changed who is next: the others go back, and are picked anew.
        for j = i, #ids do
          local other = rows[ids[j]] or {}
          if other[STATE] == AVAILABLE then put(shelf(other), rank(other), other[ID]) end
        end
        break
      end
      if t[STATE] == AVAILABLE then meet(t, any_rate and rates[string.match(lane_name(t[LANE]), '[^\31]*$')]) end
    end
  end
end

local next_due
local function due_at(at)
  if at and (not next_due or at < next_due) then next_due = at end
end

-- lanes of a queue that this worker may fetch from now, of an index.
local function lanes_in(index, queue)
  local found = {}
  for _, lane in ipairs(call('SMEMBERS', prefix .. index .. ':' .. queue)) do
    local kind = string.match(lane_name(lane), '[^\31]*$')
    if (not kinds or kinds[kind]) and not paused(queue, kind) then found[#found + 1] = {lane = lane, kind = kind} end
  end
  return found
end

for i = queues_from, #ARGV do
  local queue = ARGV[i]
  for _, d in ipairs(lanes_in('dues', queue)) do
    come_due(d.lane, 1000)
    local first = call('ZRANGE', prefix .. 'due:' .. d.lane, 0, 0, 'WITHSCORES')
    due_at(first[2] and tonumber(first[2]))
  end
  settle()
  if next(offered) then announce() end
  local sources = {}
  for _, o in ipairs(lanes_in('offered', queue)) do
    local any = false
    for _, kind_of_shelf in ipairs({'ready:', 'suspect:', 'charged:'}) do
      local s = {key = kind_of_shelf .. o.lane, kind = o.kind, limited = rates[o.kind] ~= nil, suspect = kind_of_shelf ~= 'ready:'}
      if call('EXISTS', prefix .. s.key) == 1 then
        any = true
        if not s.suspect or suspects == 1 and (charged or kind_of_shelf == 'suspect:') then sources[#sources + 1] = s end
      end
    end
    if not any then call('SREM', prefix .. 'offered:' .. queue, o.lane) end
  end
  if #sources > 0 and left > 0 then from(sources) end
  -- What a rate holds back is asked for again when it may go.
  for _, s in ipairs(sources) do
    local r = rates[s.kind]
    if r and allowed(r) < 1 then due_at(r.full + r.each - r.burst) end
  end
end
if left > 0 and looked >= 2000 then due_at(now) end -- there is more, of what had to be passed over

for kind, r in pairs(rates) do
  if r.used then call('HSET', prefix .. 'rates', kind, text(r.each) .. ' ' .. text(r.burst) .. ' ' .. text(r.full) .. ' ' .. kind) end
end
finish()
if left > 0 and queues_from <= #ARGV then call('SADD', prefix .. 'idle', unpack(ARGV, queues_from)) end

local reply, ids, names, named = {now, 1, next_due or 0, {}}, {}, {}, {}
for i, t in ipairs(given) do
  ids[i] = t[ID]
  if not named[t[LANE]] then
    named[t[LANE]] = true
    names[#names + 1] = t[LANE]
    names[#names + 1] = lane_name(t[LANE])
  end
end
if #ids == 0 then return reply end
call('SADD', prefix .. 'running:' .. worker, unpack(ids))
reply[4] = names
local specs = {}
for n, p in pairs(grouped(ids)) do
  local found = call('HMGET', prefix .. 'specs:' .. n, unpack(p))
  for i, id in ipairs(p) do specs[id] = found[i] end
end
for _, t in ipairs(given) do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = tonumber(t[ID]), t[PACKED], specs[t[ID]] or ''
end
return reply

-- One step of maintenance: rescues tasks of dead workers (Q4), discards expired ones (Q6), makes due ones available,
-- ends windows (Q1), deletes old ones, repairs limits (Q5), forgets counters and workers. It touches 'max' tasks at
-- most, and says whether there is more.
--
-- ARGV: max, then of each state that is kept for a bounded time: the state, how long in µs. Answers: now, rescued,
-- crashed, expired, due, freed, deleted, repaired, more, then of each worker that was found dead with tasks: its
-- hash, and how many of them were rescued.
local left = tonumber(ARGV[1])
local function spend_of(n)
  left = left - n
  return n
end

local rescued, crashed, dead = 0, 0, {}
-- rescue_from takes tasks from a dead worker, in the order of their ids, so that they become available in it.
local function rescue_from(n)
  if left <= 0 then return end
  local has = call('SCARD', prefix .. 'running:' .. n)
  local ids = call('SRANDMEMBER', prefix .. 'running:' .. n, left)
  load(ids)
  table.sort(ids, function(x, y) return tonumber(x) < tonumber(y) end)
  for _, id in ipairs(ids) do
    local t = rows[id]
    if t and t[STATE] == RUNNING and tostring(t[WORKER]) == n then
      if rescue(t) then crashed = crashed + 1 else rescued = rescued + 1 end
    else
      mark('running:' .. n, id, false)
    end
  end
  if spend_of(#ids) > 0 then dead[#dead + 1] = {n, #ids} end
  if has == #ids then mark_gone(n) end
end

-- Five hundred workers at a time, those first that were not looked at for longest: 'workers' orders them by that.
for _, n in ipairs(call('ZRANGE', prefix .. 'workers', 0, 499)) do
  local w = call('HMGET', prefix .. 'worker:' .. n, 'lease', 'hold')
  if w[1] and live(w[1], w[2]) then put('workers', now, n) else rescue_from(n) end
end

-- over does what is due to tasks of a sorted set whose instants have passed, to as many as are left. An entry whose
-- task is of another kind than it should be is removed, else it would be met for ever.
local function over(key, fits, apply)
  if left <= 0 then return 0 end
  local ids = passed(key, left)
  load(ids)
  for _, id in ipairs(ids) do
    if rows[id] and fits(rows[id]) then apply(rows[id]) else drop(key, id) end
  end
  return spend_of(#ids)
end

local expired = over('expiry', function(t) return waiting(t[STATE]) end, function(t) stop_waiting(t, DISCARDED, 'expired') end)

local due = 0
for _, subqueue in ipairs(call('SRANDMEMBER', prefix .. 'dues', 500)) do
  if left > 0 then due = due + spend_of(make_due(subqueue, left)) end
end

local freed = over('windows', in_window, close_window)

-- retire deletes the tasks of a state that ended longer ago than keep. The list also names tasks that were deleted
-- since, and tasks that were retried and may have ended again: these go to its end, else they would hold up the
-- others. To delete a task takes twice the time of the other things, so it counts twice.
local gone = 0
local function retire(state, keep)
  if left <= 0 then return end
  local key = prefix .. 'ended:' .. state
  local ids = call('LRANGE', key, 0, math.ceil(left / 2) - 1)
  load(ids)
  local n, again = 0, {}
  for _, id in ipairs(ids) do
    local t = rows[id]
    local there = t and t[STATE] == state
    if there and t[ENDED] >= now - keep then
      if t[GRANTED] == 0 then break end
      again[#again + 1] = id
    elseif there then
      delete(t)
      gone = gone + 1
    end
    n = n + 1
  end
  spend_of(2 * (n - #again))
  if n > 0 then remove('LTRIM', 'ended:' .. state, n, -1) end
  for _, id in ipairs(again) do add('RPUSH', 'ended:' .. state, id) end
end
for i = 2, #ARGV, 2 do retire(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) end

-- Slots that were given back above let others up first. Then comes what an earlier step has left to do.
if limits_made then limits().settle() end
local more_to_tidy = call('EXISTS', prefix .. 'untidy') == 1 and limits().go_on(20)

-- mend checks one limit and puts right what no step should have left wrong. A limit that nobody used for thirty days
-- is forgotten: its tokens follow the clock (L10).
local repaired = 0
local month = 30 * 86400 * 1000000
local function mend(key)
  local l = limits().limit(key)
  if l.untidy then return end -- it is known not to be right yet
  local ids = call('SRANDMEMBER', prefix .. 'slots:' .. key, 100)
  load(ids)
  local leave = members['slots:' .. key] or {}
  for _, id in ipairs(ids) do
    local t = rows[id]
    if leave[id] ~= false and (not t or t[STATE] ~= RUNNING or more(t).limit_key ~= key) then
      mark('slots:' .. key, id, false)
      l.used = l.used - 1
      l.dirty = true
      repaired = repaired + 1
    end
  end
  repaired = repaired + limits().tidy_all(l)
  if l.used == 0 and not l.untidy and not l.said and call('EXISTS', prefix .. 'lines:' .. key) == 0
      and num(call('HGET', prefix .. 'limit:' .. key, 'used')) < now - month then
    order('DEL', 'limit:' .. key)
    drop('limits', key)
  end
end
local from = call('HGET', prefix .. 'queue', 'mended') or ''
local some = call('ZRANGEBYLEX', prefix .. 'limits', '(' .. from, '+', 'LIMIT', 0, 20)
for _, key in ipairs(some) do mend(key) end
if #some > 0 or from ~= '' then add('HSET', 'queue', 'mended', #some == 20 and some[20] or '') end

-- Bookkeeping: counters are kept for a week, what is known of workers that are gone for a month.
for _, minute in ipairs(call('ZRANGEBYSCORE', prefix .. 'minutes', '-inf', now - 7 * 86400 * 1000000, 'LIMIT', 0, 100)) do
  order('UNLINK', 'counts:' .. minute)
  drop('minutes', minute)
end
for _, n in ipairs(call('ZRANGEBYSCORE', prefix .. 'gone', '-inf', now - month, 'LIMIT', 0, 100)) do
  remove('HDEL', 'worker-of', call('HGET', prefix .. 'worker:' .. n, 'hold') or '')
  order('UNLINK', 'worker:' .. n)
  drop('gone', n)
end

more_to_tidy = more_to_tidy or limits_made and limits().unfinished()
local reply = {now, rescued, crashed, expired, due, freed, gone, repaired, (left <= 0 or more_to_tidy) and 1 or 0}
for _, d in ipairs(dead) do
  reply[#reply + 1] = worker_info(d[1])
  reply[#reply + 1] = d[2]
end
finish()
return reply

-- A tick is a hash 'tick:<at>:<job>', known by its member '<at>:<job>' in the indexes: 'ticks' and
-- 'ticks:<job>' by instant, 'ranges' and 'ranges:<job>' by the last instant of a range row, 'open' and
-- 'open:<job>' as long as it is unfinished.
local WON, TAKEN, SETTLED, EARLY, TICK_LATE, DIFFERS, LAPSED, PAUSED = 1, 2, 3, 4, 5, 6, 7, 8

local function member(job, at) return at .. ':' .. job end

-- row answers the tick and whether its lease is live, or nothing where there is no such tick.
local function row(m)
  local r = call('HMGET', prefix .. 'tick:' .. m, 'job', 'at', 'through', 'count', 'state', 'lease', 'hold',
    'claimant', 'run', 'outcome', 'reason', 'inferred', 'reruns', 'claimed', 'started', 'ended')
  if not r[1] then return nil end
  r[17] = (r[6] and r[7] and live(r[6], r[7])) and 1 or 0
  return r
end

local function index(job, at, m)
  call('ZADD', prefix .. 'ticks', at, m)
  call('ZADD', prefix .. 'ticks:' .. job, at, m)
end

local function open(job, at, m)
  call('ZADD', prefix .. 'open', at, m)
  call('ZADD', prefix .. 'open:' .. job, at, m)
end

local function finish(job, m)
  call('ZREM', prefix .. 'open', m)
  call('ZREM', prefix .. 'open:' .. job, m)
end

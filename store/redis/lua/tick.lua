-- A tick is a hash 'tick:<at>:<job>', known by its member '<at>:<job>' in the indexes: 'ticks' and
-- 'ticks:<job>' by instant, 'ranges' and 'ranges:<job>' by the last instant of a range row, 'open:<job>' as
-- long as it is unfinished. 'open' has all of those as '<job>\31<at>', and 'owed:<app>/' those of an
-- application that may still have to be run (tick.Tick's Owed): both in the order of their members, so that a
-- step goes on where the last one ended.
local WON, TAKEN, SETTLED, EARLY, TICK_LATE, DIFFERS, LAPSED, PAUSED = 1, 2, 3, 4, 5, 6, 7, 8

-- member is a tick's name in all indexes.
local function member(job, at) return at .. ':' .. job end

-- row answers the tick and whether its lease is live, or nothing where there is no such tick.
local function row(m)
  local r = get(prefix .. 'tick:' .. m, 'job', 'at', 'through', 'count', 'state', 'lease', 'hold',
    'claimant', 'run', 'outcome', 'reason', 'inferred', 'reruns', 'claimed', 'started', 'ended')
  if not r[1] then return nil end
  r[17] = (r[6] and r[7] and live(r[6], r[7])) and 1 or 0
  return r
end

-- index, open and finish keep the indexes: all ticks, and those that are unfinished.
local function index(job, at, m)
  plan('ZADD', prefix .. 'ticks', at, m)
  plan('ZADD', prefix .. 'ticks:' .. job, at, m)
end

local function open(job, at, m)
  plan('ZADD', prefix .. 'open', 0, job .. '\31' .. at)
  plan('ZADD', prefix .. 'open:' .. job, at, m)
end

local function finish(job, at, m)
  plan('ZREM', prefix .. 'open', job .. '\31' .. at)
  plan('ZREM', prefix .. 'open:' .. job, m)
end

local function owed_of(job) return prefix .. 'owed:' .. (string.match(job, '^[^/]*/') or '') end

-- owes says whether an outcome may still be followed by a run: a re-run, or catching up (T3, T8).
local function owes(outcome, reason)
  return outcome == 'lost' or outcome == 'crashed' or outcome == 'canceled' or outcome == 'missed'
    or outcome == 'unavailable' or outcome == 'paused' or outcome == 'skipped' and reason == 'window'
end

-- ended keeps the index of owed ticks, now that this tick, which was claimed here, has an outcome.
local function ended(job, m, outcome, reason)
  if owes(outcome, reason) then plan('ZADD', owed_of(job), 0, m) else plan('ZREM', owed_of(job), m) end
end

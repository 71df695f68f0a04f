-- Splits a range row into parts, if it is still as it was read, so that a tick within a settled range gets a row of
-- its own and can be run after all (T3). The first part keeps the row's key.
--
-- ARGV: job, at, through and count of a range row, then of each part: at, through ('0' for a single tick), count.
-- Answers: now, status, tick.
local job, at, through, count = unpack(ARGV, 1, 4)
local whole = member(job, at)

local said = {'job', 'state', 'outcome', 'reason', 'inferred', 'ended'}
local known = get(prefix .. 'tick:' .. whole, unpack(said))

local function copy(m, at)
  index(job, at, m)
  for i, name in ipairs(said) do
    if known[i] then set(prefix .. 'tick:' .. m, name, known[i]) end
  end
end

local function part(at, through, count)
  local m = member(job, at)
  if m ~= whole then copy(m, at) end
  set(prefix .. 'tick:' .. m, 'at', at, 'through', through, 'count', count)
  for _, ranges in ipairs({prefix .. 'ranges', prefix .. 'ranges:' .. job}) do
    if through == '0' then plan('ZREM', ranges, m) else plan('ZADD', ranges, through, m) end
  end
end

local function split()
  local r = get(prefix .. 'tick:' .. whole, 'through', 'count')
  if through == '0' or r[1] ~= through or r[2] ~= count then return TAKEN end
  for i = 5, #ARGV, 3 do part(unpack(ARGV, i, i + 2)) end
  return WON
end

local status = split()
local r = row(whole)
write_planned()
return {now, status, r}

-- ARGV: job, at, through and count of a range row, then of each part: at, through ('0' for a single
-- tick), count. Answers: now, status, tick.
local job, at, through, count = unpack(ARGV, 1, 4)
local whole = member(job, at)

local function copy(m, at)
  index(job, at, m)
  for i, name in ipairs({'job', 'state', 'outcome', 'reason', 'inferred', 'ended'}) do
    local value = call('HGET', prefix .. 'tick:' .. whole, name)
    if value then call('HSET', prefix .. 'tick:' .. m, name, value) end
  end
end

local function part(at, through, count)
  local m = member(job, at)
  if m ~= whole then copy(m, at) end
  call('HSET', prefix .. 'tick:' .. m, 'at', at, 'through', through, 'count', count)
  for _, ranges in ipairs({prefix .. 'ranges', prefix .. 'ranges:' .. job}) do
    if through == '0' then call('ZREM', ranges, m) else call('ZADD', ranges, through, m) end
  end
end

local function split()
  local r = call('HMGET', prefix .. 'tick:' .. whole, 'through', 'count')
  if through == '0' or r[1] ~= through or r[2] ~= count then return TAKEN end
  for i = 5, #ARGV, 3 do part(unpack(ARGV, i, i + 2)) end
  return WON
end

local status = split()
return {now, status, row(whole)}

-- A job's ticks between two instants, the latest first, with a range row that begins before and reaches in. One
-- script reads them all at one instant: a reader of the index that read the rows later would miss what is split
-- meanwhile.
--
-- ARGV: job, from, to (as bounds of scores), limit. Answers: now, then the ticks.
local job, from, to, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local found = call('ZREVRANGEBYSCORE', prefix .. 'ticks:' .. job, to, from, 'LIMIT', 0, limit)
if from ~= '-inf' then
  for _, m in ipairs(call('ZRANGEBYSCORE', prefix .. 'ranges:' .. job, from, '+inf', 'LIMIT', 0, limit - #found)) do
    if tonumber(string.match(m, '^%d+')) < tonumber(from) then found[#found + 1] = m end
  end
end

local reply = {now}
for _, m in ipairs(found) do reply[#reply + 1] = row(m) end
return reply

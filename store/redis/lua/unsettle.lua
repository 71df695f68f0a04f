-- ARGV: job, from, to, how far 'to' may lie before now, then of each row: at, through ('0' for a single tick).
-- Answers: now, status.
local job, from, to = ARGV[1], ARGV[2], tonumber(ARGV[3])
local key = prefix .. 'job:' .. job
local j = call('HMGET', key, 'mark', 'since', 'paused_since', 'paused_until')
local mark = tonumber(from)
if j[1] ~= from or mark <= now or to >= mark or to < now - tonumber(ARGV[4]) then return {now, TAKEN} end

for n = 5, #ARGV, 2 do
  local at, m = ARGV[n], member(job, ARGV[n])
  local r = call('HMGET', prefix .. 'tick:' .. m, 'through', 'state', 'claimed')
  -- What somebody claimed stays.
  if tonumber(at) > to and r[1] == ARGV[n + 1] and r[2] == 'closed' and num(r[3]) == 0 then
    call('DEL', prefix .. 'tick:' .. m)
    for _, i in ipairs({'ticks', 'ranges'}) do
      call('ZREM', prefix .. i, m)
      call('ZREM', prefix .. i .. ':' .. job, m)
    end
  end
end

local since = text(to + 1)
call('HSET', key, 'mark', ARGV[3])
if num(j[2]) > to + 1 then call('HSET', key, 'since', since) end
if num(j[4]) == 0 and num(j[3]) > to + 1 then call('HSET', key, 'paused_since', since) end
return {now, WON}

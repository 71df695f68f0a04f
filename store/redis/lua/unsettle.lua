-- Takes back what ticks got while this clock was ahead (L12): deletes rows above 'to' and lowers the mark to it. It
-- does nothing unless each row is as it was read, and is settled, or was written for an instant to come and never
-- run. A pause that begins or ends ahead of the clock is brought back too.
--
-- ARGV: job, from, to, how far 'to' may lie before now, then of each row: at, through ('0' for a single tick).
-- Answers: now, status.
local job, from, to = ARGV[1], ARGV[2], tonumber(ARGV[3])
local key = prefix .. 'job:' .. job
local j = call('HMGET', key, 'mark', 'since', 'paused_since', 'paused_until', 'paused_resumed')
local mark = tonumber(from)
local lowers = to ~= mark
if j[1] ~= from or lowers and (mark <= now or to >= mark or to < now - tonumber(ARGV[4])) then return {now, TAKEN} end

-- foreseen is tick.Tick's: nobody ran it, and its outcome was written by a clock that was ahead.
local function foreseen(outcome, reason, run, reruns, ended)
  local unrun = outcome == 'missed' or outcome == 'paused' or outcome == 'unavailable' or
    outcome == 'skipped' and reason == 'window'
  return unrun and (run or '') == '' and num(reruns) == 0 and num(ended) > now
end

-- takes says whether a row may be deleted: it is as it was read.
local function takes(at, through)
  local r = call('HMGET', prefix .. 'tick:' .. member(job, at), 'through', 'state', 'claimed',
    'outcome', 'reason', 'run', 'reruns', 'ended')
  return tonumber(at) > to and r[2] == 'closed' and num(r[1]) == tonumber(through) and
    (num(r[3]) == 0 or foreseen(unpack(r, 4, 8)))
end

for n = 5, #ARGV, 2 do
  if not takes(ARGV[n], ARGV[n + 1]) then return {now, TAKEN} end
end
for n = 5, #ARGV, 2 do
  local m = member(job, ARGV[n])
  call('DEL', prefix .. 'tick:' .. m)
  call('ZREM', owed_of(job), m)
  for _, i in ipairs({'ticks', 'ranges'}) do
    call('ZREM', prefix .. i, m)
    call('ZREM', prefix .. i .. ':' .. job, m)
  end
end

local since = text(to + 1)
call('HSET', key, 'mark', ARGV[3])
if num(j[2]) > to + 1 then call('HSET', key, 'since', since) end
local begins = lowers and to + 1 or now
if num(j[4]) == 0 then
  if num(j[3]) > begins then call('HSET', key, 'paused_since', text(begins)) end
elseif j[5] == '1' and num(j[4]) > now then
  call('HSET', key, 'paused_until', now_text)
  if num(j[3]) > now then call('HSET', key, 'paused_since', now_text) end
end
return {now, WON}

-- ARGV: lease and hold that the tick's row names, lease and hold of the run, not_after, then the run as
-- insert_run takes it: id, hold, job, tick, … Without a tick ('0') only the run is inserted, and the first lease,
-- unless it is '', is a gate that must be live as well.
-- Answers: now, status, tick.
local claim, claim_hold, lease, hold, not_after, id, fence, job, at = unpack(ARGV, 1, 9)
local m = member(job, at)

local function start()
  local known = call('HMGET', prefix .. 'run:' .. id, 'hold', 'outcome')
  if known[1] and known[1] == fence and known[2] == '' then return WON end -- repeated, however late
  if late(not_after) then return TICK_LATE end
  if known[1] then return TAKEN end
  local r = at ~= '0' and call('HMGET', prefix .. 'tick:' .. m, 'state', 'lease', 'hold')
  if r and (r[1] ~= 'claimed' or r[2] ~= claim or r[3] ~= claim_hold) then return TAKEN end
  if not live(lease, hold) or not r and claim ~= '' and not live(claim, claim_hold) then return LAPSED end
  if r then
    call('HSET', prefix .. 'tick:' .. m, 'state', 'started', 'lease', lease, 'hold', hold, 'run', id, 'started', now_text)
  end
  insert_run(unpack(ARGV, 6))
  return WON
end

local status = start()
return {now, status, row(m)}

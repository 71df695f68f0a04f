-- Starts runs (T1): the claim becomes started and the run's record is made, in one step that is acknowledged before
-- the work begins. So there is at most one unfinished run per tick. A start that is repeated after a lost answer is
-- answered as won.
--
-- ARGV: of each item: lease and hold that the tick's row names, lease and hold of the run, not_after, then the run as
-- insert_run takes it: id, hold, job, tick, … Without a tick ('0') only the run is inserted, and the first lease,
-- unless it is '', is a gate that must be live as well. Answers: now, then of each item {status, tick}.
local width = 19

local function start(i)
  local claim, claim_hold, lease, hold, not_after, id, fence, job, at = unpack(ARGV, i, i + 8)
  local m = member(job, at)
  local known = get(prefix .. 'run:' .. id, 'hold', 'outcome')
  if known[1] and known[1] == fence and known[2] == '' then return {WON, row(m)} end -- repeated, however late
  if late(not_after) then return {TICK_LATE, row(m)} end
  if known[1] then return {TAKEN, row(m)} end
  local r = at ~= '0' and get(prefix .. 'tick:' .. m, 'state', 'lease', 'hold')
  if r and (r[1] ~= 'claimed' or r[2] ~= claim or r[3] ~= claim_hold) then return {TAKEN, row(m)} end
  if not live(lease, hold) or not r and claim ~= '' and not live(claim, claim_hold) then return {LAPSED, row(m)} end
  if r then
    set(prefix .. 'tick:' .. m, 'state', 'started', 'lease', lease, 'hold', hold, 'run', id, 'started', now_text)
  end
  insert_run(unpack(ARGV, i + 5, i + width - 1))
  return {WON, row(m)}
end

local reply = {now}
for i = 1, #ARGV, width do reply[#reply + 1] = start(i) end
write_planned()
return reply

-- Closes runs and claims, and releases their leases in the same step (T9). The first outcome stands; only the run's
-- own word replaces one that somebody else inferred (T3).
--
-- ARGV: of each item: run id or '', its hold, job, tick or '0', outcome, reason, inferred ('1' or ''), ended ('0' for
-- now), attempts, lease and hold that the tick's row names, lease and hold to release ('' for none). Answers: now,
-- then of each item {status, tick}.

-- end_tick closes the tick's row and takes it out of the indexes of what is unfinished.
local function end_tick(m, job, at, outcome, reason, inferred, ended_at)
  set(prefix .. 'tick:' .. m, 'state', 'closed', 'outcome', outcome, 'reason', reason,
    'inferred', inferred, 'ended', ended_at)
  finish(job, at, m)
  ended(job, m, outcome, reason)
end

-- close_claim ends a claim that ran nothing, if the row still names that claim and no run.
local function close_claim(job, at, outcome, reason, inferred, ended_at, claim, claim_hold)
  local m = member(job, at)
  local r = get(prefix .. 'tick:' .. m, 'lease', 'hold', 'state', 'run', 'outcome')
  if r[1] ~= claim or r[2] ~= claim_hold or r[4] then return TAKEN end
  if r[3] == 'closed' then return r[5] == outcome and WON or TAKEN end -- repeated, or too late
  end_tick(m, job, at, outcome, reason, inferred, ended_at)
  return WON
end

-- close_run ends a run, and its tick while that is still of this run: what a tick says of its run is what the run
-- says, since both change in one step.
local function close_run(id, fence, outcome, reason, inferred, ended_at, attempts)
  local key = prefix .. 'run:' .. id
  local r = get(key, 'hold', 'outcome', 'inferred', 'job', 'tick')
  if r[1] ~= fence then return TAKEN end
  if not amends(r[2], r[3], inferred) then
    return r[2] == outcome and r[3] == inferred and WON or TAKEN -- repeated, or too late
  end
  set(key, 'outcome', outcome, 'reason', reason, 'inferred', inferred, 'ended', ended_at, 'attempts', attempts)
  local m = member(r[4], r[5])
  if get(prefix .. 'tick:' .. m, 'run')[1] == id then end_tick(m, r[4], r[5], outcome, reason, inferred, ended_at) end
  return WON
end

-- close is one item. The release is conditional by itself, so it is tried even when the outcome is refused.
local function close(id, fence, job, at, outcome, reason, inferred, ended, attempts, claim, claim_hold, lease, hold)
  if ended == '0' then ended = now_text end
  local status
  if id == '' then
    status = close_claim(job, at, outcome, reason, inferred, ended, claim, claim_hold)
  else
    status = close_run(id, fence, outcome, reason, inferred, ended, attempts)
  end
  if hold ~= '' then release(lease, hold) end
  return {status, row(member(job, at))}
end

local reply = {now}
for i = 1, #ARGV, 13 do reply[#reply + 1] = close(unpack(ARGV, i, i + 12)) end
in_place() -- the run has memory for its outcome already, or nearly
write_planned()
return reply

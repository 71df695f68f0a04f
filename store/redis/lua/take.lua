-- Takes a tick over from a lease that has lapsed (T2), runs one again (T3), or fills one that never ran (T4). It is
-- one step, so of two that take one tick over, one wins.
--
-- ARGV: job, at, lease and hold that the row names, lease and hold of the newcomer, claimant, 'rerun', 'fill' or '',
-- not_after. Answers: now, status, tick.
local job, at, from, from_hold, lease, hold, claimant, how, not_after = unpack(ARGV)
local m = member(job, at)
local key = prefix .. 'tick:' .. m

-- takeable is T2 for a claim that started nothing, T3 for what may be run again, and T4 for what never ran.
local function takeable(r)
  local state, outcome, lives, rerun = r[5], r[10], r[17] == 1, how == 'rerun'
  if how == 'fill' then
    return state == 'closed' and num(r[3]) == 0 and (outcome == 'missed' or outcome == 'unavailable' or outcome == 'skipped')
  end
  if state == 'claimed' then return not rerun and not lives end
  if state == 'started' then return rerun and not lives end
  return rerun and (outcome == 'lost' or outcome == 'crashed' or outcome == 'canceled')
end

local function take()
  local r = row(m)
  if r and r[5] == 'claimed' and r[6] == lease and r[7] == hold then return WON end -- repeated
  if late(not_after) then return TICK_LATE end
  if not r or (r[6] or '') ~= from or (r[7] or '') ~= from_hold or not takeable(r) then return TAKEN end
  if not live(lease, hold) then return LAPSED end
  if r[5] == 'started' then infer_crash(r[9]) end
  if how == 'rerun' then set(key, 'reruns', text(num(r[13]) + 1)) end
  set(key, 'state', 'claimed', 'lease', lease, 'hold', hold, 'claimant', claimant, 'claimed', now_text)
  -- The row forgets its run: what that run still reports concerns the run alone (T3).
  unset(key, 'run', 'outcome', 'reason', 'inferred', 'started', 'ended')
  open(job, at, m)
  plan('ZREM', owed_of(job), m)
  return WON
end

local status = take()
local found = row(m)
write_planned()
return {now, status, found}

-- Claims ticks, or claims and closes them in one step (promise 8; T1, T4, T8, T11). The first claim of (job, instant)
-- wins for ever. It is refused at or below the mark, for another definition, too far ahead, in a pause, or under a
-- lease that is not live.
--
-- The store's identity (L9) needs no look here: a claim stands on a live lease, that lease on a grant, and grants are
-- what is held back.
--
-- ARGV: of each item: job, at, generation ('0' for any), lease, hold, claimant, ahead, not_after, outcome ('' to
-- claim only), reason, '1' to fill a settled gap. Answers: now, then of each item: 0 for a claim just won, or
-- {status, tick if there is one}.
local function paused(at, since, till)
  if since == 0 then return false end
  return till == 0 or now < till or at >= since and at < till
end

local function claim(job, at, generation, lease, hold, claimant, ahead, not_after, outcome, reason, fill)
  local m = member(job, at)
  local r = row(m)
  -- A repeated claim has won, however late it comes.
  if r and r[6] == lease and r[7] == hold and not r[9] and (r[10] or '') == outcome then return {WON, r} end
  if late(not_after) then return {TICK_LATE, r} end
  if r then return {TAKEN, r} end
  local j = get(prefix .. 'job:' .. job, 'generation', 'mark', 'removed', 'paused_since', 'paused_until')
  if j[2] and fill ~= '1' and tonumber(at) <= tonumber(j[2]) then return {SETTLED} end
  if generation ~= '0' and (j[1] ~= generation or num(j[3]) > 0) then return {DIFFERS} end
  if tonumber(at) > now + tonumber(ahead) then return {EARLY} end
  if outcome == '' and paused(tonumber(at), num(j[4]), num(j[5])) then return {PAUSED} end
  if not live(lease, hold) then return {LAPSED} end

  index(job, at, m)
  local key = prefix .. 'tick:' .. m
  set(key, 'job', job, 'at', at, 'lease', lease, 'hold', hold, 'claimant', claimant, 'claimed', now_text)
  if outcome == '' then
    set(key, 'state', 'claimed')
    open(job, at, m)
  else
    set(key, 'state', 'closed', 'outcome', outcome, 'reason', reason, 'ended', now_text)
    ended(job, m, outcome, reason)
  end
  return 0
end

local reply = {now}
for i = 1, #ARGV, 11 do reply[#reply + 1] = claim(unpack(ARGV, i, i + 10)) end
write_planned()
return reply

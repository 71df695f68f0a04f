-- Grants leases: one script is one atomic step. Keeps L1 (not_after), L8 (busy), L9 (identity and hold-back), L10
-- (tokens). The server's clock, read when the script runs, decides. quick/acquire.lua does the same for the plain
-- cases.
--
-- ARGV: fresh installation id, layout, longest TTL and epoch that were seen (all four for identity), then of each
-- item: name, owner, ttl, not_after, holder, reclaim ('owner:token' or ''), unguarded ('1' or ''). Answers: now,
-- hold_until, max_ttl, epoch, then of each item: the token of a grant, or {status, record}.
local hold_until, max_ttl, epoch = identity(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[3])

local expiry = {} -- ttl → when a lease granted now expires, formatted once
local function expires_in(ttl)
  local e = expiry[ttl]
  if not e then
    e = text(now + tonumber(ttl))
    expiry[ttl] = e
  end
  return e
end

-- acquire grants one lease, or answers why not. A token is larger than the one before and than the clock (L10), and
-- is written with '%.0f': Lua's tostring would lose digits.
local function acquire(name, owner, ttl, not_after, holder, reclaim, unguarded)
  if late(not_after) then return {LATE, record(name)} end
  local key = prefix .. 'lease:' .. name
  local v = get(key, 'hold', 'expires', 'odd')
  local hold, expires, odd = v[1], num(v[2]), v[3]
  if expires > now and string.sub(hold, 1, 32) == owner then return {OK, record(name)} end
  if tonumber(ttl) > max_ttl then return {TOO_LONG, record(name)} end
  if now < hold_until then return {HELD_BACK, record(name)} end
  if expires > 0 then
    if expires > now and hold ~= reclaim then return {HELD, record(name)} end
    -- The lease lapsed, or its supervisor died: neither ends a request that works elsewhere (L8). So busy counts
    -- unless the newcomer says that it need not.
    if odd and unguarded == '' and num(get(key, 'busy')[1]) > now then return {HELD, record(name)} end
  end

  local token, token_text = now, now_text
  if hold then
    local previous = tonumber(string.sub(hold, 34))
    if previous >= now then
      token = previous + 1
      token_text = text(token)
    end
    if odd then unset(key, 'odd', 'busy', 'wanted', 'broken', 'broken_at') end
  else
    plan('ZADD', prefix .. 'leases', 0, name)
  end
  set(key, 'hold', owner .. ':' .. token_text, 'expires', expires_in(ttl), 'ttl', ttl,
    'acquired', now_text, 'renewed', now_text, 'holder', holder)
  return token
end

local reply = {now, hold_until, max_ttl, epoch}
for i = 5, #ARGV, 7 do
  reply[#reply + 1] = acquire(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
end
write_planned()
return reply

-- Renews holds, each by itself, in one round trip for a whole heartbeat (L4). A lapsed or broken hold is never
-- revived, even if nobody took the key (L1, L5). A full server still renews.
--
-- ARGV: fresh installation id, layout, longest TTL that was seen (all three for identity), then of each item: name,
-- hold, terms, '1' for the whole record. terms is 'ttl not_after busy_until', or '' for those of the item before: in
-- a heartbeat they are all the same. Answers: now, max_ttl, then {item, status, record} of each item that is not
-- simply renewed, or whose record was asked for.
local max_ttl = num(call('HGET', prefix .. 'meta', 'max_ttl'))
if max_ttl < tonumber(ARGV[3]) then
  -- The data was lost. Holders that still come are refused below, but others may be cut off: so grants are held back
  -- (L9).
  local _
  _, max_ttl = identity(ARGV[1], ARGV[2], ARGV[3], 0, ARGV[3])
end
local ttl, not_after, busy, expires

-- renew answers a status, and whether the lease is odd.
local function renew(name, hold)
  if late(not_after) then return LATE end
  local key = prefix .. 'lease:' .. name
  local v = get(key, 'hold', 'expires', 'odd')
  local odd = v[3]
  if v[1] ~= hold or num(v[2]) <= now or odd and get(key, 'broken')[1] then return GONE end
  -- Grants are held back for max_ttl, so nothing may be held for longer (rule L9).
  if tonumber(ttl) > max_ttl then return TOO_LONG end
  set(key, 'expires', expires, 'renewed', now_text, 'ttl', ttl)
  -- An older heartbeat may arrive after a newer one.
  if busy ~= '0' and not (odd and num(get(key, 'busy')[1]) >= tonumber(busy)) then
    set(key, 'busy', busy, 'odd', '1')
  end
  return OK, odd
end

local reply = {now, max_ttl}
for i = 4, #ARGV, 4 do
  local name, terms = ARGV[i], ARGV[i + 2]
  if terms ~= '' then
    ttl, not_after, busy = string.match(terms, '(%d+) (%d+) (%d+)')
    expires = text(now + tonumber(ttl))
  end
  local status, odd = renew(name, ARGV[i + 1])
  if status ~= OK or odd or ARGV[i + 3] == '1' then
    reply[#reply + 1] = {(i - 4) / 4, status, record(name)}
  end
end
in_place() -- a full server must end no work
write_planned()
return reply

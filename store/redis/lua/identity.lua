-- identity compares the server with the one that the namespace's meta record names (L9). It answers until when grants
-- are held back, the longest TTL, the epoch, and whether the identity changed.
--
-- Grants are held back for the longest TTL in four cases:
-- * Another run_id: the server was restarted or promoted, and acknowledged leases may be missing from its data.
-- * No meta record: the data is gone.
-- * A client has seen a later epoch: this is an older state of the data.
-- * A client has seen a longer TTL than the record has: the record was lost, and made anew by a client that did not
--   know of that TTL.
--
-- A hold-back that is longer was written by a clock that ran ahead, and begins anew. INFO costs about 4 µs, once per
-- batch.
--
-- layout is 'schema oldest' of the program, which a record that is made anew gets: see prepare.lua.
--
-- identify answers also what is to be written for that, a list of fields or nothing; identity plans it.
local function identify(fresh_id, layout, default_max_ttl, seen, seen_ttl)
  local m = call('HMGET', prefix .. 'meta', 'run_id', 'hold_until', 'max_ttl', 'epoch')
  local run_id = string.match(call('INFO', 'server'), 'run_id:(%w+)')
  if not run_id then error('INFO server tells no run_id') end
  local hold_until, epoch = num(m[2]), num(m[4])
  seen, seen_ttl = tonumber(seen), tonumber(seen_ttl)
  if m[1] == run_id and epoch >= seen then
    local max_ttl = num(m[3])
    if max_ttl < seen_ttl then
      max_ttl, hold_until = seen_ttl, now + seen_ttl
      return hold_until, max_ttl, epoch, false, {'max_ttl', text(max_ttl), 'hold_until', text(hold_until)}
    elseif hold_until > now + max_ttl then -- it was written by a clock that ran ahead
      hold_until = now + max_ttl
      return hold_until, max_ttl, epoch, false, {'hold_until', text(hold_until)}
    end
    return hold_until, max_ttl, epoch, false
  end
  local max_ttl = math.max(tonumber(m[3] or default_max_ttl), seen_ttl)
  hold_until = now + max_ttl
  epoch = math.min(math.max(epoch + 1, seen + 1, now), 9007199254740991) -- lease.MaxEpoch
  local fields = {'run_id', run_id, 'max_ttl', text(max_ttl), 'hold_until', text(hold_until), 'epoch', text(epoch)}
  if not m[3] then
    local schema, oldest = string.match(layout, '^(%d+) (%d+)$')
    for _, v in ipairs({'id', fresh_id, 'schema', schema, 'oldest', oldest}) do fields[#fields + 1] = v end
  end
  return hold_until, max_ttl, epoch, true, fields
end

local function identity(...)
  local hold_until, max_ttl, epoch, changed, fields = identify(...)
  if fields then set(prefix .. 'meta', unpack(fields)) end
  return hold_until, max_ttl, epoch, changed
end

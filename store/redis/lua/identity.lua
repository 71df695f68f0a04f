-- identity compares the server with the one that the namespace's meta record names (rule L9), and
-- answers until when grants are held back, and the longest TTL. A server that was restarted or
-- promoted has another run_id: leases that were acknowledged may be missing from its data, so nothing
-- is granted before the longest of them has surely lapsed. The meta record gone, under a client that
-- had found it, means that the data is gone: the same holds. INFO costs about 4 µs, once per batch.
local function identity(fresh_id, schema, default_max_ttl)
  local key = prefix .. 'meta'
  local m = call('HMGET', key, 'run_id', 'hold_until', 'max_ttl')
  local run_id = string.match(call('INFO', 'server'), 'run_id:(%w+)')
  if not run_id then error('INFO server tells no run_id') end
  if m[1] == run_id then return num(m[2]), num(m[3]), false end
  local max_ttl = m[3] or default_max_ttl
  local hold_until = now + max_ttl
  if not m[3] then
    call('HSET', key, 'id', fresh_id, 'schema', schema, 'max_ttl', max_ttl)
  end
  call('HSET', key, 'run_id', run_id, 'hold_until', text(hold_until))
  return hold_until, tonumber(max_ttl), true
end

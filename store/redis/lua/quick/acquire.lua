-- The plain cases of acquire.lua, in one pass over its items. It makes nothing that an item does not need: no
-- function per call, no plan, no record unless it is asked for. If any item is not plain it answers {0}, has done
-- nothing, and leaves the whole batch to acquire.lua.
--
-- As a function of the library it knows the server's run_id after the first call. The id is the process's, and so is
-- this variable: a server that was restarted or promoted has loaded the library anew. As a script it asks at every
-- call.
local run_id

-- argv: longest TTL and epoch that were seen, ttl and not_after of all items, then of each item: name, owner, holder.
-- Answers: now, hold_until, max_ttl, epoch, then of each item: the token of a grant, or {HELD, record}.
local function acquire(keys, argv)
  local call = redis.call
  local prefix, format, sub = keys[1], string.format, string.sub
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local now_text = format('%.0f', now)
  local ttl, not_after = tonumber(argv[3]), tonumber(argv[4])
  local m = call('HMGET', prefix .. 'meta', 'run_id', 'hold_until', 'max_ttl', 'epoch')
  if not (m[1] and m[2] and m[3] and m[4]) then return {0} end
  if not run_id then run_id = string.match(call('INFO', 'server'), 'run_id:(%w+)') end
  local hold_until, max_ttl, epoch = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  if m[1] ~= run_id or epoch < tonumber(argv[2]) or max_ttl < tonumber(argv[1]) -- see identity.lua (rule L9)
    or now < hold_until or max_ttl < ttl or not_after > 0 and now > not_after then
    return {0}
  end

  local reply, n = {now, hold_until, max_ttl, epoch}, 4
  local holds, fresh = {}, nil
  for i = 5, #argv, 3 do
    local owner = argv[i + 1]
    local v = call('HMGET', prefix .. 'lease:' .. argv[i], 'hold', 'expires', 'odd')
    local hold = v[1]
    n = n + 1
    if hold and tonumber(v[2] or 0) > now then
      if sub(hold, 1, 32) == owner then return {0} end -- repeated
      reply[n] = {2, call('HMGET', prefix .. 'lease:' .. argv[i], 'hold', 'expires', 'ttl', 'acquired', 'renewed',
        'busy', 'holder', 'wanted', 'broken', 'broken_at')}
    elseif v[3] then
      return {0} -- a request may be at work, or there is a break to forget
    elseif hold then
      local token, token_text = tonumber(sub(hold, 34)) + 1, now_text
      if token > now then token_text = format('%.0f', token) else token = now end
      reply[n], holds[i] = token, owner .. ':' .. token_text
    else
      fresh = fresh or {}
      fresh[#fresh + 1] = argv[i]
      reply[n], holds[i] = now, owner .. ':' .. now_text
    end
  end

  if fresh then
    for i = 1, #fresh do call('ZADD', prefix .. 'leases', 0, fresh[i]) end
  end
  local expires = format('%.0f', now + ttl)
  for i = 5, #argv, 3 do
    if holds[i] then
      call('HSET', prefix .. 'lease:' .. argv[i], 'hold', holds[i], 'expires', expires, 'ttl', argv[3],
        'acquired', now_text, 'renewed', now_text, 'holder', argv[i + 2])
    end
  end
  return reply
end

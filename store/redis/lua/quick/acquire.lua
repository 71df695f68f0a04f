-- The plain cases of acquire.lua, in one pass over its items. It makes nothing that an item does not need: no
-- function per call, no plan, no record unless it is asked for. If any item is not plain it answers {0}, has done
-- nothing, and leaves the whole batch to acquire.lua.
--
-- A library's variables last as long as the server's process. They keep what is the same from call to call, to be
-- compared instead of read again. Nothing is believed for being here: each value is used only if the text that it was
-- read from is the same now. As a script it begins without any at every call.
--
-- The server's run_id is asked for once: the id is the process's, and so is this variable. A server that was restarted
-- or promoted has loaded the library anew.
local run_id
-- The namespace's record as it was read last, and its numbers.
local known_id, known_hold, known_max, known_epoch, hold_until, max_ttl, epoch
-- argv[1], and its numbers.
local known_terms, seen_ttl, seen, ttl, ttl_text
-- A second of the clock, and the second in which a lease of that ttl expires if it is granted then.
local known_second, known_ttl, expiry_second

-- told is the answer in full, as far as n items: all of them are granted with the token now.
local function told(now, n)
  local reply = {now, hold_until, max_ttl, epoch}
  for i = 5, 4 + n do reply[i] = now end
  return reply
end

-- argv: 'longest TTL that was seen, epoch that was seen, ttl of all items', not_after of all items, then of each item:
-- name, owner, holder. Answers: now if all were granted with that token, and what was seen is what the record says;
-- else now, hold_until, max_ttl, epoch, then of each item: the token of a grant, or {HELD, record}.
local function acquire(keys, argv)
  local call = redis.call
  local prefix, sub = keys[1], string.sub
  local clock = call('TIME')
  local second, micros = clock[1], clock[2]
  local now = second * 1000000 + micros

  local m = call('HMGET', prefix .. 'meta', 'run_id', 'hold_until', 'max_ttl', 'epoch')
  if m[1] ~= known_id or m[2] ~= known_hold or m[3] ~= known_max or m[4] ~= known_epoch then
    if not (m[1] and m[2] and m[3] and m[4]) then return {0} end
    known_id, known_hold, known_max, known_epoch = m[1], m[2], m[3], m[4]
    hold_until, max_ttl, epoch = tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
  end
  if not run_id then run_id = string.match(call('INFO', 'server'), 'run_id:(%w+)') end
  if argv[1] ~= known_terms then
    known_terms = argv[1]
    local most, latest
    most, latest, ttl_text = string.match(known_terms, '^(%d+) (%d+) (%d+)$')
    seen_ttl, seen, ttl = tonumber(most), tonumber(latest), tonumber(ttl_text)
  end
  local not_after = tonumber(argv[2])
  if known_id ~= run_id or epoch < seen or max_ttl < seen_ttl -- see identity.lua (rule L9)
    or now < hold_until or max_ttl < ttl or not_after > 0 and now > not_after then
    return {0}
  end

  -- Instants are put together from the clock's own texts: to format a number costs as much as to read a key.
  if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
  local now_text, expires = second .. micros, nil
  if ttl % 1000000 > 0 then
    expires = string.format('%.0f', now + ttl)
  else
    if second ~= known_second or ttl ~= known_ttl then
      known_second, known_ttl, expiry_second = second, ttl, string.format('%.0f', second + ttl / 1000000)
    end
    expires = expiry_second .. micros
  end

  -- All items are read before the first is written.
  local holds, reply, fresh = {}, nil, nil
  for i = 3, #argv, 3 do
    local owner = argv[i + 1]
    local v = call('HMGET', prefix .. 'lease:' .. argv[i], 'hold', 'expires', 'odd')
    local hold = v[1]
    local answer, token_text = now, now_text
    if hold and v[2] ~= '0' and tonumber(v[2] or 0) > now then
      if sub(hold, 1, 32) == owner then return {0} end -- repeated
      answer, token_text = {2, call('HMGET', prefix .. 'lease:' .. argv[i], 'hold', 'expires', 'ttl', 'acquired',
        'renewed', 'busy', 'holder', 'wanted', 'broken', 'broken_at')}, nil
    elseif v[3] then
      return {0} -- a request may be at work, or there is a break to forget
    elseif hold then
      local previous = tonumber(sub(hold, 34))
      if previous >= now then
        answer = previous + 1
        token_text = string.format('%.0f', answer)
      end
    else
      fresh = fresh or {}
      fresh[#fresh + 1] = argv[i]
    end
    if answer ~= now and not reply then reply = told(now, (i - 3) / 3) end
    if reply then reply[#reply + 1] = answer end
    holds[i] = token_text and owner .. ':' .. token_text
  end

  if fresh then
    for i = 1, #fresh do call('ZADD', prefix .. 'leases', 0, fresh[i]) end
  end
  for i = 3, #argv, 3 do
    if holds[i] then
      call('HSET', prefix .. 'lease:' .. argv[i], 'hold', holds[i], 'expires', expires, 'ttl', ttl_text,
        'acquired', now_text, 'renewed', now_text, 'holder', argv[i + 2])
    end
  end
  if not reply and (epoch ~= seen or max_ttl ~= seen_ttl) then reply = told(now, (#argv - 2) / 3) end
  return reply or now
end

-- ARGV: of each item: name, definition, since ('0' for now), '1' to remove it. Answers: now, then the jobs.
local function set(name, definition, since)
  local key = prefix .. 'job:' .. name
  local j = call('HMGET', key, 'definition', 'generation', 'mark', 'removed')
  -- A removed job that returns is a change: the ticks of its absence are nobody's.
  if j[1] == definition and num(j[4]) == 0 then return end
  local mark = math.max(num(j[3]), tonumber(since) - 1)
  call('HSET', key, 'definition', definition, 'generation', text(num(j[2]) + 1), 'since', since,
    'mark', text(mark), 'removed', '0')
  call('ZADD', prefix .. 'jobs', 0, name)
end

local function remove(name, since)
  local key = prefix .. 'job:' .. name
  local removed = call('HGET', key, 'removed')
  if removed == '0' then call('HSET', key, 'removed', since) end
end

local reply = {now}
for i = 1, #ARGV, 4 do
  local name, definition, since = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if since == '0' then since = now_text end
  if ARGV[i + 3] == '1' then remove(name, since) else set(name, definition, since) end
  reply[#reply + 1] = job_row(name)
end
return reply

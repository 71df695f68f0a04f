-- Looks at one page of what is older than before. ARGV: 'ticks', 'runs' or 'events'; before; how many of
-- the oldest to pass over, since they were looked at and must stay; page size.
-- Answers: how many went, how many stay.
local kind, before, pass, page = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

-- Each deletes one that may go, and says whether it did.
local drop = {}

function drop.ticks(m)
  local key = prefix .. 'tick:' .. m
  local r = call('HMGET', key, 'job', 'at', 'through', 'state')
  local job, last = r[1], math.max(num(r[2]), num(r[3]))
  if not job or r[4] ~= 'closed' or last >= before then return false end
  local mark = call('HGET', prefix .. 'job:' .. job, 'mark')
  if mark and last > tonumber(mark) then return false end
  call('DEL', key)
  call('ZREM', prefix .. 'owed:' .. (string.match(job, '^[^/]*/') or ''), m)
  for _, i in ipairs({'ticks', 'ranges'}) do
    call('ZREM', prefix .. i, m)
    call('ZREM', prefix .. i .. ':' .. job, m)
  end
  return true
end

function drop.runs(id)
  local key = prefix .. 'run:' .. id
  local r = call('HMGET', key, 'job', 'outcome', 'ended')
  if not r[1] or r[2] == '' or num(r[3]) >= before then return false end
  call('DEL', key, prefix .. 'output:' .. id)
  call('ZREM', prefix .. 'runs', id)
  call('ZREM', prefix .. 'runs:' .. r[1], id)
  return true
end

function drop.events(id)
  local text = call('HGET', prefix .. 'event', id)
  call('HDEL', prefix .. 'event', id)
  call('ZREM', prefix .. 'events', id)
  local e = text and cjson.decode(text) or {}
  if e.job then call('ZREM', prefix .. 'events:' .. e.job, id) end
  if e.run_id then call('ZREM', prefix .. 'events-of:' .. e.run_id, id) end
  return true
end

local gone, stay = 0, 0
for _, m in ipairs(call('ZRANGEBYSCORE', prefix .. kind, '-inf', '(' .. ARGV[2], 'LIMIT', pass, page)) do
  if drop[kind](m) then gone = gone + 1 else stay = stay + 1 end
end
return {gone, stay}

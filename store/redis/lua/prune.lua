-- Deletes one page of what is older than an instant. What must stay, such as ticks of an application that is gone and
-- never ended them, is looked at once a round: 'pruned' says how many of the oldest the steps of this round have
-- passed over.
--
-- ARGV: 'ticks', 'runs' or 'events'; before; page size. Answers: how many went, 1 if there is more to look at.
local kind, before, page = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- Each plans the deletion of one that may go, and says whether it may. A tick above its job's mark stays, since a
-- late server could claim it again (T4).
local drop = {}

function drop.ticks(m)
  local key = prefix .. 'tick:' .. m
  local r = get(key, 'job', 'at', 'through', 'state')
  local job, last = r[1], math.max(num(r[2]), num(r[3]))
  if not job or r[4] ~= 'closed' or last >= before then return false end
  local mark = get(prefix .. 'job:' .. job, 'mark')[1]
  if mark and last > tonumber(mark) then return false end
  plan('DEL', key)
  plan('ZREM', prefix .. 'owed:' .. (string.match(job, '^[^/]*/') or ''), m)
  for _, i in ipairs({'ticks', 'ranges'}) do
    plan('ZREM', prefix .. i, m)
    plan('ZREM', prefix .. i .. ':' .. job, m)
  end
  return true
end

function drop.runs(id)
  local key = prefix .. 'run:' .. id
  local r = get(key, 'job', 'outcome', 'ended')
  if not r[1] or r[2] == '' or num(r[3]) >= before then return false end
  plan('DEL', key, prefix .. 'output:' .. id)
  plan('ZREM', prefix .. 'runs', id)
  plan('ZREM', prefix .. 'runs:' .. r[1], id)
  return true
end

function drop.events(id)
  local told = get(prefix .. 'event', id)[1]
  plan('HDEL', prefix .. 'event', id)
  plan('ZREM', prefix .. 'events', id)
  local _, e = pcall(cjson.decode, told)
  if type(e) ~= 'table' then e = {} end
  if e.job then plan('ZREM', prefix .. 'events:' .. e.job, id) end
  if e.run_id then plan('ZREM', prefix .. 'events-of:' .. e.run_id, id) end
  return true
end

local from = num(get(prefix .. 'pruned', kind)[1])
local found = call('ZRANGE', prefix .. kind, from, from + page - 1, 'WITHSCORES')
local gone, stay, over = 0, 0, #found < 2 * page
for i = 1, #found, 2 do
  over = over or tonumber(found[i + 1]) >= before
  if tonumber(found[i + 1]) >= before then break end
  if drop[kind](found[i]) then gone = gone + 1 else stay = stay + 1 end
end
if not over and stay > 0 then
  plan('HSET', prefix .. 'pruned', kind, text(from + stay))
elseif over and from > 0 then
  plan('HDEL', prefix .. 'pruned', kind)
end
in_place()
write_planned()
return {gone, over and 0 or 1}

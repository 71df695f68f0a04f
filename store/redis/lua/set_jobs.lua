-- Registers and removes definitions (T11). The same definition changes nothing; a changed one is the next generation.
--
-- ARGV: of each item: name, definition, since ('0' for now), past definitions, of which generation a change or a
-- removal is made ('0' for any), '1' to remove it, the mark of a row that was forgotten ('0' for another). Answers:
-- now, then the jobs.
local function define(name, definition, since, past, of, forgotten)
  local key = prefix .. 'job:' .. name
  local j = get(key, 'definition', 'generation', 'mark', 'removed')
  -- A removed job that returns is a change: the ticks of its absence are nobody's.
  if j[1] == definition and num(j[4]) == 0 then return end
  if j[1] and (forgotten ~= '0' or of ~= '0' and (of ~= j[2] or num(j[4]) ~= 0)) then return end
  local mark = num(j[3] or forgotten)
  if not j[1] or past == '' then mark = math.max(mark, tonumber(since) - 1) end
  set(key, 'definition', definition, 'generation', text(num(j[2] or of) + 1), 'since', since,
    'mark', text(mark), 'removed', '0', 'past', past)
  plan('ZADD', prefix .. 'jobs', 0, name)
end

local function remove(name, since, of)
  local key = prefix .. 'job:' .. name
  local j = get(key, 'generation', 'removed')
  if j[2] == '0' and (of == '0' or of == j[1]) then set(key, 'removed', since, 'past', '') end
end

local reply = {now}
for i = 1, #ARGV, 7 do
  local name, definition, since, past, of, removed, forgotten = unpack(ARGV, i, i + 6)
  if since == '0' then since = now_text end
  if removed == '1' then remove(name, since, of) else define(name, definition, since, past, of, forgotten) end
  reply[#reply + 1] = job_row(name)
end
write_planned()
return reply

-- Appends events, in one step. An event whose id is there already is left out, so an append that is repeated after a
-- lost answer adds nothing twice.
--
-- ARGV: of each event: the id with which it came ('' for none), instant ('0' for now), job, run id, and the rest as
-- JSON. An event without an id gets a number that rises, padded with zeros so that ids of one instant sort as they
-- were appended. Answers: now.
local sequence, added, told = num(call('GET', prefix .. 'sequence')), 0, {}
for i = 1, #ARGV, 5 do
  local id, at, job, run = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if at == '0' then at = now_text end
  if id == '' then
    added = added + 1
    id = string.format('%016.0f', sequence + added)
  end
  if not told[id] and call('HEXISTS', prefix .. 'event', id) == 0 then
    told[id] = true
    plan('HSET', prefix .. 'event', id, ARGV[i + 4])
    plan('ZADD', prefix .. 'events', at, id)
    if job ~= '' then plan('ZADD', prefix .. 'events:' .. job, at, id) end
    if run ~= '' then plan('ZADD', prefix .. 'events-of:' .. run, at, id) end
  end
end
if added > 0 then plan('INCRBY', prefix .. 'sequence', added) end
write_planned()
return {now}

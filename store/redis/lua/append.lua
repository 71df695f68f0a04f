-- ARGV: of each event: the id with which it came ('' for none), instant ('0' for now), job, run id, and
-- the rest as JSON. Its own id is a number that rises, padded so that ids of one instant sort as they
-- were appended; the one with which it came stands in its place. Answers: now.
for i = 1, #ARGV, 5 do
  local id, at, job, run = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if at == '0' then at = now_text end
  if id == '' then id = string.format('%016.0f', call('INCR', prefix .. 'sequence')) end
  if call('HSETNX', prefix .. 'event', id, ARGV[i + 4]) == 1 then
    call('ZADD', prefix .. 'events', at, id)
    if job ~= '' then call('ZADD', prefix .. 'events:' .. job, at, id) end
    if run ~= '' then call('ZADD', prefix .. 'events-of:' .. run, at, id) end
  end
end
return {now}

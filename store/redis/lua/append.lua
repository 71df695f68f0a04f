-- ARGV: of each event: instant ('0' for now), job, run id, and the rest as JSON. Its id is a number that
-- rises, padded so that ids of one instant sort as they were appended. Answers: now.
for i = 1, #ARGV, 4 do
  local at, job, run = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if at == '0' then at = now_text end
  local id = string.format('%016.0f', call('INCR', prefix .. 'sequence'))
  call('HSET', prefix .. 'event', id, ARGV[i + 3])
  call('ZADD', prefix .. 'events', at, id)
  if job ~= '' then call('ZADD', prefix .. 'events:' .. job, at, id) end
  if run ~= '' then call('ZADD', prefix .. 'events-of:' .. run, at, id) end
end
return {now}

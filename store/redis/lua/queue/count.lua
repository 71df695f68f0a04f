-- ARGV: of each count: minute, field, n. Answers: now.
for i = 1, #ARGV, 3 do
  call('HINCRBY', prefix .. 'counts:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2])
  call('ZADD', prefix .. 'minutes', ARGV[i], ARGV[i])
end
return {now}

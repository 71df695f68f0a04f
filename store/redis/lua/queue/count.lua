-- Adds to counters.
--
-- ARGV: of each count: minute, field, n. Answers: now.
for i = 1, #ARGV, 3 do
  order('HINCRBY', 'counts:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2])
  put('minutes', tonumber(ARGV[i]), ARGV[i])
end
commit()
return {now}

-- ARGV: of each run, the 14 arguments of insert_run. Answers: now.
for i = 1, #ARGV, 14 do
  if call('EXISTS', prefix .. 'run:' .. ARGV[i]) == 0 then insert_run(unpack(ARGV, i, i + 13)) end
end
return {now}

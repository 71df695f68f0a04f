-- A page of the registry, by name.
--
-- ARGV: lower and upper bound of the names as ZRANGEBYLEX takes them, most rows. Answers: now, then the jobs.
local reply = {now}
for _, name in ipairs(call('ZRANGEBYLEX', prefix .. 'jobs', ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  reply[#reply + 1] = job_row(name)
end
return reply

-- Some ticks by their members.
--
-- ARGV: members. Answers: now, then the ticks of those that are still there.
local reply = {now}
for i = 1, #ARGV do
  local r = row(ARGV[i])
  if r then reply[#reply + 1] = r end
end
return reply

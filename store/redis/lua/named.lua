-- ARGV: names. Answers: now, then the jobs of these that are registered.
local reply = {now}
for _, name in ipairs(ARGV) do
  local j = job_row(name)
  if j[2] then reply[#reply + 1] = j end
end
return reply

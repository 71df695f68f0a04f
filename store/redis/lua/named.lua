-- Some jobs by name.
--
-- ARGV: names. Answers: now, then those that are registered.
local reply = {now}
for _, name in ipairs(ARGV) do
  local j = job_row(name)
  if j[2] then reply[#reply + 1] = j end
end
return reply

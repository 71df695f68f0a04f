-- The clock, and the records of some leases.
--
-- ARGV: names. Answers: now, then the record of each.
local reply = {now}
for i = 1, #ARGV do reply[#reply + 1] = record(ARGV[i]) end
return reply

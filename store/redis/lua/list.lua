-- A page of lease records, by name. It acquires nothing, and reads no more names than it is asked for.
--
-- ARGV: lower and upper bound of the names as ZRANGEBYLEX takes them, how many to look at, '1' for free ones too.
-- Answers: now, how many were looked at, the last name of them, then {name, record} of each that is wanted.
local names = call('ZRANGEBYLEX', prefix .. 'leases', ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local reply = {now, #names, names[#names] or ''}
for i = 1, #names do
  local r = record(names[i])
  if r[1] and (ARGV[4] == '1' or num(r[2]) > now) then reply[#reply + 1] = {names[i], r} end
end
return reply

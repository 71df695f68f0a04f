-- ARGV: key, max, what the event's words end with. Answers: now, 1 or 0 (no task ever named it).
local l = limits().limit(ARGV[1])
if not l.known then return {now, 0} end
limits().resize(l, tonumber(ARGV[2]), '', ARGV[3])
finish()
return {now, 1}

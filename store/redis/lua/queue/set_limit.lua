-- An operator's word on a limit (Q5). It stands above what tasks declare until it is taken back.
--
-- ARGV: key, max (0: the word is taken back), what the event's words end with, by whom. Answers: now, 1 or 0 (no task
-- ever named it).
local l = limits().limit(ARGV[1])
if not l.known then return {now, 0} end
limits().say(l, tonumber(ARGV[2]), ARGV[3], ARGV[4])
finish()
return {now, 1}

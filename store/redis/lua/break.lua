-- Breaks a live hold (L5). A plain break forbids renewals and leaves expires alone, so the holder stops within its
-- margin before anybody else is granted the key, and waiters are told to look. At once, the key is free; the holder
-- may still be at work then.
--
-- ARGV: name, hold ('' for any), broken as JSON, '1' to free it at once. Answers: now, status, record.
local name, hold, broken, at_once = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local key = prefix .. 'lease:' .. name
if hold == '' then hold = call('HGET', key, 'hold') end
if not live(name, hold) then return {now, GONE, record(name)} end
set(key, 'broken', broken, 'broken_at', now_text, 'odd', '1')
if at_once then free(name, true) else wake(name) end
local r = record(name)
in_place()
write_planned()
return {now, OK, r}

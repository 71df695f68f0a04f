-- Begins, changes or ends the pause of a job (T8). A pause that goes on keeps its beginning. A claim is one step as
-- well, so it is either before the pause or sees it.
--
-- ARGV: job, until ('0' for none), by, why, '1' to resume. Answers: now, then the job, if it is registered.
local name, till, by, why, resume = unpack(ARGV)
local key = prefix .. 'job:' .. name
local j = get(key, 'removed', 'paused_since', 'paused_until')
if j[1] ~= '0' then return {now} end
local since, ended = num(j[2]), num(j[3])
local on = since > 0 and now >= since and (ended == 0 or now < ended)
if resume == '1' then
  if on then set(key, 'paused_until', now_text, 'paused_resumed', '1') end
else
  if not on then set(key, 'paused_since', now_text) end
  set(key, 'paused_until', till, 'paused_by', by, 'paused_why', why, 'paused_resumed', '0')
end
local row = job_row(name)
write_planned()
return {now, row}

-- Deletes records of leases that have been free for long (L10): a later token is larger because the clock is. Each is
-- judged here again, since it may have been granted after list told of it.
--
-- ARGV: the instant before which they were last used, then names. Answers: how many.
local unused = tonumber(ARGV[1])
local gone = 0
for i = 2, #ARGV do
  local v = get(prefix .. 'lease:' .. ARGV[i], 'hold', 'expires', 'renewed', 'busy')
  if v[1] and num(v[2]) <= now and num(v[4]) <= now and num(v[3]) < unused then
    forget(ARGV[i])
    gone = gone + 1
  end
end
write_planned()
return {gone}

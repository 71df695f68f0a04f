-- Shortens holds that were renewed while this clock was further ahead than now (L12). Their holders renew them as
-- ever.
--
-- ARGV: by how many µs they may last longer than their TTL, then names. Answers: how many.
local slack, n = tonumber(ARGV[1]), 0
for i = 2, #ARGV do
  local key = prefix .. 'lease:' .. ARGV[i]
  local v = get(key, 'expires', 'ttl')
  local most = now + num(v[2])
  if num(v[1]) > most + slack then
    set(key, 'expires', text(most))
    n = n + 1
  end
end
in_place()
write_planned()
return {n}

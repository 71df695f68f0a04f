-- Answers: now, then of each worker whose lease is live: its hash, and how many tasks it has.
local reply = {now}
for _, n in ipairs(call('ZRANGE', prefix .. 'overseen', 0, -1)) do
  local w = worker_info(n)
  if w[1] and live(w[1], w[2]) then
    reply[#reply + 1] = w
    reply[#reply + 1] = call('SCARD', prefix .. 'running:' .. n)
  end
end
return reply

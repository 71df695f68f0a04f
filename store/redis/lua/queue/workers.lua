-- Workers whose lease is live, in steps of ZSCAN.
--
-- ARGV: where to go on ('0' at first). Answers: now, where to go on ('0': that was all), then of each worker: its
-- hash, and how many tasks it has. A worker may come twice.
local some = call('ZSCAN', prefix .. 'workers', ARGV[1], 'COUNT', 500)
local reply = {now, some[1]}
for i = 1, #some[2], 2 do
  local n = some[2][i]
  local w = worker_info(n)
  if w[1] and live(w[1], w[2]) then
    reply[#reply + 1] = w
    reply[#reply + 1] = call('SCARD', prefix .. 'running:' .. n)
  end
end
return reply

-- ARGV: job or '', most rows. Answers: now, then the unfinished ticks whose lease is not live, oldest first.
local reply = {now}
local key = prefix .. (ARGV[1] == '' and 'open' or 'open:' .. ARGV[1])
for _, m in ipairs(call('ZRANGE', key, 0, -1)) do
  local r = row(m)
  if r and r[17] == 0 then reply[#reply + 1] = r end
  if #reply > tonumber(ARGV[2]) then break end
end
return reply

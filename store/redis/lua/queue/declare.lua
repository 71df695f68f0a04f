-- Declares the rates of kinds. What a kind has used of its rate stays used.
--
-- ARGV: of each kind: the kind, the µs that one task costs (0: no rate), how many tasks the bucket holds, and how many
-- may be taken in how many µs. Answers: now.
for i = 1, #ARGV, 5 do
  local kind, each, burst, most, per = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if each == '0' then
    remove('HDEL', 'rates', kind)
  else
    local full, taken = string.match(call('HGET', prefix .. 'rates', kind) or '', '^%d+ %d+ (%d+) %d+ %d+ (%S+) ')
    add('HSET', 'rates', kind, table.concat({each, text(each * burst), full or '0', per, most, taken or '-', kind}, ' '))
  end
end
commit()
return {now}

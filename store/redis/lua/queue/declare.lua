-- Declares the rates of kinds. What a kind has used of its rate stays used.
--
-- ARGV: of each kind: the kind, the µs that one task costs (0: no rate), and how many tasks the bucket holds.
-- Answers: now.
for i = 1, #ARGV, 3 do
  local kind, each, burst = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if each == '0' then
    remove('HDEL', 'rates', kind)
  else
    local full = string.match(call('HGET', prefix .. 'rates', kind) or '', '^%d+ %d+ (%d+)') or '0'
    add('HSET', 'rates', kind, each .. ' ' .. text(each * burst) .. ' ' .. full .. ' ' .. kind)
  end
end
commit()
return {now}

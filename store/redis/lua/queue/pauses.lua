-- 'pauses' maps 'queue<US>kind', either of which may be empty, to '<until, or 0> <JSON>'.
-- pauses returns a function that says whether a lane is paused now.
local function pauses()
  local all = call('HGETALL', prefix .. 'pauses')
  if #all == 0 then return function() return false end end
  local holds = {}
  for i = 1, #all, 2 do
    local till = tonumber(string.match(all[i + 1], '^%d+'))
    if till == 0 or till > now then holds[all[i]] = true end
  end
  return function(queue, kind)
    return holds['\31'] or holds[queue .. '\31'] or holds['\31' .. kind] or holds[queue .. '\31' .. kind] or false
  end
end

-- The plain cases of release.lua, in one pass over its items. If an item is no longer that hold's, or may have a
-- busy, wanted or broken field beside it, it answers {0}, has done nothing, and leaves the whole batch to
-- release.lua. No clock decides about a release, so none is read.

-- argv: of each item: name, hold. Answers: 1.
local function release(keys, argv)
  local call = redis.call
  local prefix = keys[1]
  for i = 1, #argv, 2 do
    local v = call('HMGET', prefix .. 'lease:' .. argv[i], 'hold', 'expires', 'odd')
    if v[1] ~= argv[i + 1] or v[2] == '0' or v[3] then return {0} end
  end
  -- A full server accepts a script's writes after one that takes no memory (see common.lua); functions say that
  -- they take none.
  if in_script then call('DEL', prefix .. 'nothing') end
  for i = 1, #argv, 2 do
    local name = argv[i]
    if string.sub(name, 1, 5) == 'once\31' then
      call('DEL', prefix .. 'lease:' .. name)
      call('ZREM', prefix .. 'leases', name)
    else
      call('HSET', prefix .. 'lease:' .. name, 'expires', '0')
      call('PUBLISH', prefix .. 'free:' .. name, '')
    end
  end
  return 1
end

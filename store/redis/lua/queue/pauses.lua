local MOST_SUBQUEUES = 200 -- that a fetch looks at: of a queue, and of pauses and rates unless it looks them up one by one

-- 'pauses' maps 'queue<US>kind', either of which may be empty, to '<until, or 0> <JSON>'. pauses returns a function
-- that says whether a sub-queue is paused now. Where there are many pauses they are looked up one by one.
local function pauses()
  local key = prefix .. 'pauses'
  local n = call('HLEN', key)
  if n == 0 then return function() return false end end
  local holds = {}
  local function judge(name, line)
    local till = line and tonumber(string.match(line, '^%d+'))
    holds[name] = till and (till == 0 or till > now) or false
  end
  if n <= MOST_SUBQUEUES then
    local all = call('HGETALL', key)
    for i = 1, #all, 2 do judge(all[i], all[i + 1]) end
  end
  local function held(name)
    if holds[name] == nil then judge(name, n > MOST_SUBQUEUES and call('HGET', key, name)) end
    return holds[name]
  end
  return function(queue, kind)
    return held('\31') or held(queue .. '\31') or held('\31' .. kind) or held(queue .. '\31' .. kind)
  end
end

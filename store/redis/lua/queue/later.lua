-- A script reads and decides first, and writes when nothing can go wrong any more: what it decides is kept here, and
-- commit carries it out. So an error of any kind, such as a key of the wrong type or a full server, ends a script
-- with nothing done. After its first write a script reads nothing and decides nothing.
--
-- No script does more than STEP for others than its caller (see script.go; promise 26): it stops, and says that there
-- is more. No command is given more than CHUNK values, far below what fits Lua's stack (8,000).
local CHUNK = 1000

local spent = 0
local function spend(n) spent = spent + n end
local function enough() return spent >= STEP end

-- Commands that remove, and those that add, by key; then those that stand for themselves.
local removals, additions, orders = {}, {}, {}

-- values are the arguments that are kept for a command on a key that takes any number of them.
local function values(book, command, key)
  local keys = book[command]
  if not keys then
    keys = {}
    book[command] = keys
  end
  local p = keys[key]
  if not p then
    p = {}
    keys[key] = p
  end
  return p
end

local function later(book, command, key, x, y)
  local p = values(book, command, key)
  p[#p + 1] = x
  if y then p[#p + 1] = y end
end

local function remove(command, key, x, y) later(removals, command, key, x, y) end
local function add(command, key, x, y) later(additions, command, key, x, y) end

-- order keeps a command that is given as it is, after all others.
local function order(...) orders[#orders + 1] = {...} end

-- fields reads fields of a hash, and returns them by name.
local function fields(key, names)
  local found = {}
  for i = 1, #names, CHUNK do
    for j, v in ipairs(call('HMGET', prefix .. key, unpack(names, i, math.min(i + CHUNK - 1, #names)))) do
      found[names[i + j - 1]] = v
    end
  end
  return found
end

-- Members of sets that come or go; the last word about a member counts.
local members = {}
local function marks(key)
  local m = members[key]
  if not m then
    m = {}
    members[key] = m
  end
  return m
end

local function mark(key, member, there) marks(key)[member] = there end

-- members_of are at most n members of a set as this script leaves it.
local function members_of(key, n)
  local found, left = {}, 0
  for member, there in pairs(marks(key)) do
    if not there then left = left + 1 elseif #found < n then found[#found + 1] = member end
  end
  for _, member in ipairs(call('SRANDMEMBER', prefix .. key, n + left)) do
    if #found < n and marks(key)[member] == nil then found[#found + 1] = member end
  end
  return found
end

-- The numbers of the hash 'queue', each of which is the last that was given to somebody.
local counters = {}
local function counter(name)
  local n = (counters[name] or num(call('HGET', prefix .. 'queue', name))) + 1
  counters[name] = n
  return n
end

-- zset is a sorted set as this script leaves it: without the first few ('taken'), without those that are 'gone', and
-- with what was added. first and last_of look at it so. 'page' is what was read of the server's set from 'taken' on;
-- pages grow, so a look at the head costs little and a long walk few commands.
local zsets, none = {}, {}
local function zset(key)
  local z = zsets[key]
  if not z then
    z = {key = key, add = {}, gone = {}, taken = 0, at = 1, page = none, size = 1}
    zsets[key] = z
  end
  return z
end

-- position is where an entry with this score is, or would be, among those that were added. The first entry is at the
-- end, where it is cheap to take away.
local function position(z, score)
  local low, high, o, a = 1, #z.order + 1, z.order, z.add
  while low < high do
    local middle = math.floor((low + high) / 2)
    if a[o[middle]] > score then low = middle + 1 else high = middle end
  end
  return low
end

-- strike takes out an entry that was added.
local function strike(z, id)
  if z.order then table.remove(z.order, position(z, z.add[id])) end
  z.add[id] = nil
end

-- put adds an entry, or moves it.
local function put(key, score, id)
  local z = zset(key)
  if z.order then
    if z.add[id] then strike(z, id) end
    table.insert(z.order, position(z, score), id)
  end
  z.add[id] = score
end

-- drop removes an entry.
local function drop(key, id)
  local z = zset(key)
  if z.add[id] then strike(z, id) end
  z.gone[id] = true
end

-- ordered are the ids that were added, the last one first. They are sorted when a script first asks; most scripts
-- never do.
local function ordered(z)
  if not next(z.add) then return none end
  if not z.order then
    local o, a = {}, z.add
    for id in pairs(a) do o[#o + 1] = id end
    table.sort(o, function(x, y) return a[x] > a[y] end)
    z.order = o
  end
  return z.order
end

-- first is the first entry, its score, and whether this script added it.
local function first(z)
  local id = z.page[z.at]
  while not id and not z.over or id and z.gone[id] do
    if id then
      z.at, z.taken = z.at + 2, z.taken + 1
    else
      z.page, z.at = call('ZRANGE', prefix .. z.key, z.taken, z.taken + z.size - 1, 'WITHSCORES'), 1
      z.over, z.size = #z.page < 2 * z.size, math.min(z.size * 8, 200)
    end
    id = z.page[z.at]
  end
  local score, o = id and tonumber(z.page[z.at + 1]), ordered(z)
  local mine = o[#o]
  if mine and (not id or z.add[mine] < score) then return mine, z.add[mine], true end
  return id, score, false
end

-- take_first removes the first entry and returns it.
local function take_first(z)
  local id, score, mine = first(z)
  if mine then
    strike(z, id)
  elseif id then
    z.at, z.taken = z.at + 2, z.taken + 1
  end
  return id, score
end

-- take_some removes the first n entries and returns them. It is one command while nothing has changed yet.
local function take_some(z, n)
  if not next(z.add) and not next(z.gone) then
    local ids = call('ZRANGE', prefix .. z.key, z.taken, z.taken + n - 1)
    z.taken, z.page, z.at = z.taken + #ids, none, 1
    return ids
  end
  local ids = {}
  while #ids < n do
    local id = take_first(z)
    if not id then break end
    ids[#ids + 1] = id
  end
  return ids
end

-- last_of is the last entry, of a set from which nothing is taken in front.
local function last_of(z)
  if not z.tail then z.tail, z.tail_at, z.tail_read, z.tail_size = none, 1, 0, 1 end
  local id = z.tail[z.tail_at]
  while not id and not z.tail_over or id and z.gone[id] do
    if id then
      z.tail_at = z.tail_at + 2
    else
      z.tail, z.tail_at = call('ZREVRANGE', prefix .. z.key, z.tail_read, z.tail_read + z.tail_size - 1, 'WITHSCORES'), 1
      z.tail_read, z.tail_over, z.tail_size = z.tail_read + z.tail_size, #z.tail < 2 * z.tail_size, math.min(z.tail_size * 8, 200)
    end
    id = z.tail[z.tail_at]
  end
  local score, mine = id and tonumber(z.tail[z.tail_at + 1]), ordered(z)[1]
  if mine and (not id or z.add[mine] > score) then return mine, z.add[mine] end
  return id, score
end

-- passed are up to n entries whose score is an instant that has passed. They stay where they are.
local function passed(key, n)
  local z, ids = zset(key), {}
  for _, id in ipairs(call('ZRANGEBYSCORE', prefix .. key, '-inf', now, 'LIMIT', z.taken, n)) do
    if not z.gone[id] then ids[#ids + 1] = id end
  end
  for id, score in pairs(z.add) do
    if score <= now and #ids < n then ids[#ids + 1] = id end
  end
  return ids
end

local begins -- what a script does before all other writes, if it does
local wakes = {}

-- write gives a command as many values at a time as it may have.
local function write(command, key, p)
  for i = 1, #p, CHUNK do call(command, prefix .. key, unpack(p, i, math.min(i + CHUNK - 1, #p))) end
end

local function write_all(book)
  for command, keys in pairs(book) do
    for key, p in pairs(keys) do write(command, key, p) end
  end
end

-- commit writes. A script that takes anything in begins with a write that a full server refuses: then nothing is
-- done, and nothing is refused any more after the first write. A script that only changes what is there begins with a
-- removal, and so is never refused.
local function commit(others)
  if begins then begins() end
  for name, n in pairs(counters) do call('HSET', prefix .. 'queue', name, text(n)) end
  for key, z in pairs(zsets) do
    if z.taken > 0 then call('ZREMRANGEBYRANK', prefix .. key, 0, z.taken - 1) end
    for id in pairs(z.gone) do
      if not z.add[id] then remove('ZREM', key, id) end
    end
    if next(z.add) then
      local p, n = values(additions, 'ZADD', key), 0
      for id, score in pairs(z.add) do
        p[n + 1], p[n + 2] = score, id
        n = n + 2
      end
    end
  end
  for key, m in pairs(members) do
    local come, left, n, k
    for member, there in pairs(m) do
      if there then
        if not come then come, n = values(additions, 'SADD', key), 0 end
        n = n + 1
        come[n] = member
      else
        if not left then left, k = values(removals, 'SREM', key), 0 end
        k = k + 1
        left[k] = member
      end
    end
  end
  write_all(removals)
  write_all(additions)
  if others then others() end
  for _, o in ipairs(orders) do call(o[1], prefix .. o[2], unpack(o, 3)) end
  for queue in pairs(wakes) do
    if not (members.idle and members.idle[queue]) then call('SREM', prefix .. 'idle', queue) end
    call('PUBLISH', prefix .. 'work:' .. queue, '')
  end
end

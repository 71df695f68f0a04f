-- What every script begins with. KEYS[1] is the namespace's prefix, such as 'dibs:{prod}:': it holds
-- the hash tag, so that all of a namespace lives in one slot, and all names are built from it.
--
-- Instants are µs since the epoch. A double holds them exactly (below 2^53), but Lua's tostring
-- does not print them so; text does. It is not cheap: what can be formatted once is.
local prefix = KEYS[1]
local call = redis.call

local function text(n) return string.format('%.0f', n) end

-- num reads a field: an absent one (false) and an empty one are 0.
local function num(s) return s and tonumber(s) or 0 end

-- The clock is read once per script, when the script runs: it goes on within a script, and a request that lay in a
-- stopped server's buffer must be judged by the time at which it is carried out (L1).
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = text(now)

-- late judges a not_after; 0 is no bound.
local function late(not_after)
  local bound = tonumber(not_after)
  return bound > 0 and now > bound
end

-- A script plans its writes and carries them out once it has read all that it reads. Whatever fails until then, such
-- as a key of another type or a full server, leaves nothing done. get reads fields of a hash as the plan will leave
-- them.
local planned, changing = {}, {}

local function plan(...) planned[#planned + 1] = {...} end

-- change is plan for a hash that this script may read again.
local function change(command, key, ...)
  local o = {command, key, ...}
  o.before = changing[key]
  changing[key] = o
  planned[#planned + 1] = o
end

local function set(key, ...) change('HSET', key, ...) end
local function unset(key, ...) change('HDEL', key, ...) end

-- will_be is what the latest change of a hash that touches a field makes of it: nil if none does, false if it goes.
local function will_be(o, field)
  while o do
    if o[1] == 'DEL' then return false end
    local sets = o[1] == 'HSET'
    for i = 3, #o, sets and 2 or 1 do
      if o[i] == field then return sets and o[i + 1] end
    end
    o = o.before
  end
end

local function get(key, ...)
  local values, o = call('HMGET', key, ...), changing[key]
  if o then
    for i, field in ipairs({...}) do
      local v = will_be(o, field)
      if v ~= nil then values[i] = v end
    end
  end
  return values
end

-- write_planned carries the plan out. Nothing is read or decided after it.
local function write_planned()
  for i = 1, #planned do call(unpack(planned[i])) end
end

-- in_place begins the writes of a script that only replaces what is there. A server whose memory is full (maxmemory
-- with noeviction) refuses a script's first write if that may take memory, and no write after one that was accepted.
-- DEL of a key that never exists is accepted by all versions, and changes nothing. So a full server still renews,
-- releases and closes.
local function in_place() call('DEL', prefix .. 'nothing') end

-- The statuses of lease.Answer, in the order of lease.Status.
local OK, HELD, GONE, LATE, HELD_BACK, TOO_LONG = 1, 2, 3, 4, 5, 6

-- A lease is a hash without a Redis TTL. So no eviction of keys that expire takes it, and its token survives (L10).
-- 'hold' is 'owner:token' in one field, compared as one string. 'odd' is set when there may be a busy, wanted or
-- broken field beside it: most leases have none, and are not asked for them.
local function record(name)
  return get(prefix .. 'lease:' .. name, 'hold', 'expires', 'ttl', 'acquired', 'renewed',
    'busy', 'holder', 'wanted', 'broken', 'broken_at')
end

-- live says whether hold is the lease's, and has not lapsed.
local function live(name, hold)
  local v = get(prefix .. 'lease:' .. name, 'hold', 'expires')
  return v[1] == hold and num(v[2]) > now
end

-- wake tells subscribers that wait for the lease. Without subscribers it costs less than asking whether there are
-- any.
local function wake(name) plan('PUBLISH', prefix .. 'free:' .. name, '') end

-- free ends a hold and keeps its record for the next token. odd: there may be a busy or wanted field to remove.
local function free(name, odd)
  local key = prefix .. 'lease:' .. name
  set(key, 'expires', '0')
  if odd then unset(key, 'busy', 'wanted') end
  wake(name)
end

-- forget deletes a lease's record.
local function forget(name)
  change('DEL', prefix .. 'lease:' .. name)
  plan('ZREM', prefix .. 'leases', name)
end

-- release frees the lease if it is still that hold's (promise 5), and says whether it was. A key that is used once
-- (lease.OnceKey) has no successor that would need its token, so its record goes.
local function release(name, hold)
  local v = get(prefix .. 'lease:' .. name, 'hold', 'expires', 'odd')
  if v[1] ~= hold or v[2] == '0' then return false end
  if string.sub(name, 1, 5) == 'once\31' then forget(name) else free(name, v[3]) end
  return true
end

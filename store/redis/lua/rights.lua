-- What the server's user must be allowed to do. One missing right could let work begin whose outcome cannot be
-- recorded, so a program is refused before it begins anything. This comes before common.lua, which reads the clock.

-- lacking names the commands, and those of channels, that the user may not use here; nil: none is known. Servers
-- before 7.0 cannot be asked. Nothing is carried out.
local function lacking(namespace)
  if not redis.acl_check_cmd then return nil end
  local missing, key = {}, namespace .. 'meta'
  local function ask(...)
    local known, may = pcall(redis.acl_check_cmd, ...)
    if known and not may then missing[#missing + 1] = (...) end
  end
  for name in string.gmatch([[
    DEL EXISTS GET GETRANGE HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HSET HSTRLEN HVALS INCRBY LLEN LRANGE LREM
    LSET LTRIM RPUSH SADD SCARD SET SISMEMBER SMEMBERS SRANDMEMBER SREM SSCAN UNLINK ZADD ZCARD ZCOUNT ZRANDMEMBER ZRANGE
    ZRANGEBYLEX ZRANGEBYSCORE ZREM ZREMRANGEBYRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZSCAN ZSCORE]], '%u+') do
    ask(name, key)
  end
  for _, name in ipairs({'PUBLISH', 'SUBSCRIBE', 'UNSUBSCRIBE'}) do ask(name, namespace .. 'free:') end
  for _, name in ipairs({'INFO', 'PING', 'TIME'}) do ask(name) end
  ask('EVAL', '', '1', key)
  ask('EVALSHA', '', '1', key)
  if #missing > 0 then return table.concat(missing, ', ') end
end

local missing = lacking(KEYS[1])
if missing then return redis.error_reply('NOPERM the user may not use ' .. missing) end


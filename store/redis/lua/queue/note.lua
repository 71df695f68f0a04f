-- quoted is a key as an event shows it.
local function quoted(s) return '"' .. string.gsub(s or '', '["\\]', '\\%0') .. '"' end

-- note records an event of the history in the step of what it tells of, as append.lua does.
local function note(kind, reason)
  local id = string.format('%016.0f', call('INCR', prefix .. 'sequence'))
  call('HSET', prefix .. 'event', id, cjson.encode({event = kind, reason = reason}))
  call('ZADD', prefix .. 'events', now_text, id)
end

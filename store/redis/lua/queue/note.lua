-- quoted is a key as an event shows it.
local function quoted(s) return '"' .. string.gsub(s or '', '["\\]', '\\%0') .. '"' end

-- note records an event of the history in the same step as what it tells of. append.lua does the same for the
-- client's events.
local noted
local function note(kind, reason)
  noted = (noted or num(call('GET', prefix .. 'sequence'))) + 1
  local id = string.format('%016.0f', noted)
  order('SET', 'sequence', text(noted))
  add('HSET', 'event', id, cjson.encode({event = kind, reason = reason}))
  put('events', now, id)
end

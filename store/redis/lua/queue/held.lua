-- held_until is until when slots of limits are held back, as grants of leases are (rules Q5, L9): a server that was promoted may not
-- know who has one. 0 if they are not. Only who meets a task with a limit asks; identity.lua says what makes a server another one.
local held
local function held_until()
  if held then return held end
  local m = call('HMGET', prefix .. 'meta', 'run_id', 'hold_until', 'max_ttl')
  local hold_until, max_ttl = num(m[2]), num(m[3])
  held = hold_until > now and hold_until or 0
  if max_ttl == 0 then
    held = now + 1000000 -- whoever opens the namespace next makes its record
  elseif m[1] ~= string.match(call('INFO', 'server'), 'run_id:(%w+)') or hold_until > now + max_ttl then
    held = now + max_ttl
    begins = function()
      in_place()
      identity('', '', '', 0, 0)
    end
  end
  return held
end

-- held_until is until when slots of limits are held back, as grants of leases are (Q5, L9): a server that was
-- promoted may not know all slots that were given. 0: they are not held back. Only a script that meets a task with a
-- limit asks. The first one on a server that the namespace does not know begins the hold-back.
local held
local function held_until()
  if held then return held end
  if call('HEXISTS', prefix .. 'meta', 'max_ttl') == 0 then
    held = now + 1000000 -- whoever opens the namespace next makes its record
    return held
  end
  local hold_until, _, _, _, fields = identify('', '', '', 0, 0)
  held = hold_until > now and hold_until or 0
  if fields then
    begins = function()
      in_place()
      call('HSET', prefix .. 'meta', unpack(fields))
    end
  end
  return held
end

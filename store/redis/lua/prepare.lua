-- Makes the namespace's record where there is none, raises its longest TTL, and compares the identity (L9). A new
-- record holds grants back, unless `dibs init` states that the store is new.
--
-- The record names the version of the layout (schema), and the oldest version whose programs may use it. One that this
-- program cannot use, or that is older than its own, is left as it is: the caller refuses it, or upgrades it first.
--
-- A user who lacks rights does not come here (rights.lua).
--
-- ARGV: fresh installation id, 'schema oldest' of the program, longest TTL in µs (wanted), '1' for init, longest TTL
-- that was seen. Answers: now, id, schema, max_ttl, hold_until, created, raised, changed,
-- oldest.
local fresh_id, layout, wanted, init = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local key = prefix .. 'meta'
local v = get(key, 'schema', 'oldest')
local found, oldest = v[1] and tonumber(v[1]), num(v[2])
local known = tonumber(string.match(layout, '^%d+'))
if found and (found < known or oldest == 0 or oldest > known) then
  return {now, get(key, 'id')[1], found, 0, 0, 0, 0, 0, oldest}
end

local before = num(get(key, 'max_ttl')[1])
local hold_until, max_ttl, _, changed = identity(fresh_id, layout, wanted, 0, ARGV[5])
local raised = found and max_ttl > before
if init and not found then
  -- Somebody states that the store is new: there is nothing to wait for.
  hold_until = 0
  set(key, 'hold_until', '0')
end
if init and found and tonumber(wanted) > max_ttl then
  raised, max_ttl = true, tonumber(wanted)
  set(key, 'max_ttl', wanted)
end
local function flag(b) return b and 1 or 0 end
v = get(key, 'id', 'schema', 'oldest')
write_planned()
return {now, v[1], num(v[2]), max_ttl, hold_until,
  flag(not found), flag(raised), flag(found and changed), num(v[3])}

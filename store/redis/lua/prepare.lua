-- Makes the namespace's record where there is none, raises its longest TTL, and compares the identity (L9). A new
-- record holds grants back, unless `dibs init` states that the store is new.
--
-- ARGV: fresh installation id, schema, longest TTL in µs (wanted), '1' for init, longest TTL that was seen. Answers:
-- now, id, schema, max_ttl, hold_until, created, raised, changed.
local fresh_id, schema, wanted, init = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local key = prefix .. 'meta'
local found = get(key, 'schema')[1]
-- A newer schema is left as it is; the caller refuses it.
if found and tonumber(found) > tonumber(schema) then return {now, '', tonumber(found), 0, 0, 0, 0, 0} end

local before = num(get(key, 'max_ttl')[1])
local hold_until, max_ttl, _, changed = identity(fresh_id, schema, wanted, 0, ARGV[5])
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
local id = get(key, 'id')[1]
write_planned()
return {now, id, tonumber(schema), max_ttl, hold_until,
  flag(not found), flag(raised), flag(found and changed)}

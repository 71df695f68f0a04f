-- Asks a live holder to give way (T7, Replace): writes the newcomer on its lease. Only a holder that itself declared
-- Replace is asked. The holder reads the request at its next renewal. The newest request wins.
--
-- ARGV: name, hold, newcomer. Answers: now, status, record.
local name, hold, newcomer = ARGV[1], ARGV[2], ARGV[3]
local key = prefix .. 'lease:' .. name

local function replaceable()
  local ok, holder = pcall(cjson.decode, call('HGET', key, 'holder'))
  return ok and holder.replaceable == true
end

if not live(name, hold) or not replaceable() then return {now, GONE, record(name)} end
set(key, 'wanted', newcomer, 'odd', '1')
local asked = record(name)
in_place()
write_planned()
return {now, OK, asked}

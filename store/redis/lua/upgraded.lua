-- Records that the namespace was upgraded to a version of the layout, unless it has that version or a later one by
-- now.
--
-- ARGV: schema, oldest. Answers: now, 1 if it was recorded.
local key = prefix .. 'meta'
local found = get(key, 'schema')[1]
if not found or tonumber(found) >= tonumber(ARGV[1]) then return {now, 0} end
set(key, 'schema', ARGV[1], 'oldest', ARGV[2])
write_planned()
return {now, 1}

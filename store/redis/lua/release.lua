-- Releases holds, each by itself. quick/release.lua does the same for the plain cases. A full server still releases.
--
-- ARGV: of each item: name, hold. Answers: now, then {item, record} of each that was not, or no longer, that hold's.
local reply = {now}
for i = 1, #ARGV, 2 do
  if not release(ARGV[i], ARGV[i + 1]) then reply[#reply + 1] = {(i - 1) / 2, record(ARGV[i])} end
end
in_place()
write_planned()
return reply

-- A job is a hash 'job:<name>', with its name in the index 'jobs'. job_row is a job as it is answered: of a definition
-- it has tick.MaxDefinition bytes and one more at most.
local function job_row(name)
  local j = get(prefix .. 'job:' .. name, 'definition', 'generation', 'since', 'mark', 'removed',
    'paused_since', 'paused_until', 'paused_by', 'paused_why', 'paused_resumed', 'past')
  if j[1] then j[1] = string.sub(j[1], 1, 6291457) end
  return {name, unpack(j)}
end

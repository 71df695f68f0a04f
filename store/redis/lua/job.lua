-- A job is a hash 'job:<name>', with its name in the index 'jobs'. job_row is a job as it is answered.
local function job_row(name)
  local j = get(prefix .. 'job:' .. name, 'definition', 'generation', 'since', 'mark', 'removed',
    'paused_since', 'paused_until', 'paused_by', 'paused_why', 'paused_resumed', 'past')
  return {name, unpack(j)}
end

-- A job is a hash 'job:<name>', its name in the index 'jobs'.
local function job_row(name)
  local j = call('HMGET', prefix .. 'job:' .. name, 'definition', 'generation', 'since', 'mark', 'removed')
  return {name, j[1], j[2], j[3], j[4], j[5]}
end

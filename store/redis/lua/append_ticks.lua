-- ARGV: of each tick: job, at, through ('0' for a single tick), count, claimant, run, outcome, reason,
-- inferred, reruns, claimed, started, ended. Answers: now.
local function put(job, at, through, count, claimant, run, outcome, reason, inferred, reruns, claimed, started, ended)
  local m = member(job, at)
  index(job, at, m)
  if through ~= '0' then
    call('ZADD', prefix .. 'ranges', through, m)
    call('ZADD', prefix .. 'ranges:' .. job, through, m)
  end
  call('HSET', prefix .. 'tick:' .. m, 'job', job, 'at', at, 'through', through, 'count', count, 'state', 'closed',
    'claimant', claimant, 'run', run, 'outcome', outcome, 'reason', reason, 'inferred', inferred, 'reruns', reruns,
    'claimed', claimed, 'started', started, 'ended', ended)
end

for i = 1, #ARGV, 13 do put(unpack(ARGV, i, i + 12)) end
return {now}

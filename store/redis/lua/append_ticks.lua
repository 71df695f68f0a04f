-- Appends ticks that were recorded elsewhere first, of jobs that nobody claims here (H1). A later copy replaces an
-- earlier one.
--
-- ARGV: of each tick: job, at, through ('0' for a single tick), count, claimant, run, outcome, reason, inferred,
-- reruns, claimed, started, ended. Answers: now.
local function put(job, at, through, count, claimant, run, outcome, reason, inferred, reruns, claimed, started, ended)
  local m = member(job, at)
  index(job, at, m)
  for _, ranges in ipairs({prefix .. 'ranges', prefix .. 'ranges:' .. job}) do
    if through == '0' then plan('ZREM', ranges, m) else plan('ZADD', ranges, through, m) end
  end
  set(prefix .. 'tick:' .. m, 'job', job, 'at', at, 'through', through, 'count', count, 'state', 'closed',
    'claimant', claimant, 'run', run, 'outcome', outcome, 'reason', reason, 'inferred', inferred, 'reruns', reruns,
    'claimed', claimed, 'started', started, 'ended', ended)
end

for i = 1, #ARGV, 13 do put(unpack(ARGV, i, i + 12)) end
write_planned()
return {now}

-- A run is a hash 'run:<id>', indexed by its start in 'runs' and 'runs:<job>'. 'hold' is the fence of
-- every later write (rule T9).

-- insert_run inserts a run. The caller knows that there is none of this id. inferred is '1' or ''.
local function insert_run(id, hold, job, tick, host, pid, command, started, outcome, reason, inferred, ended, attempts, cause)
  if started == '0' then started = now_text end
  set(prefix .. 'run:' .. id, 'id', id, 'job', job, 'tick', tick, 'hold', hold, 'host', host, 'pid', pid,
    'command', command, 'outcome', outcome, 'reason', reason, 'inferred', inferred, 'started', started,
    'ended', ended, 'attempts', attempts, 'cause', cause)
  plan('ZADD', prefix .. 'runs', started, id)
  plan('ZADD', prefix .. 'runs:' .. job, started, id)
end

-- amends says whether a report changes what is known: the first outcome does, and the run's own word replaces what
-- somebody else inferred (T3).
local function amends(known, known_inferred, inferred)
  return (known or '') == '' or known_inferred == '1' and inferred ~= '1'
end

-- infer_crash writes on a run that nobody hears of any more that it has crashed (T3).
local function infer_crash(id)
  local key = prefix .. 'run:' .. id
  if get(key, 'outcome')[1] == '' then
    set(key, 'outcome', 'crashed', 'inferred', '1', 'ended', now_text)
  end
end

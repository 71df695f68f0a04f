-- Workers have numbers, which rows carry. 'worker-of' maps '<owner>:<token>' to the number. 'worker:<n>' is the hash
-- of its lease, its hold, what it told of itself as JSON, its host and when it joined. 'workers' has the workers
-- that may have tasks, by when they were last looked at; 'gone' those that are dead, by when that was seen.
-- 'running:<n>' has a worker's tasks, 'asked:<n>' those of them that are asked to stop.
local function worker_of(hold) return tonumber(call('HGET', prefix .. 'worker-of', hold) or nil) end

-- join answers the worker's number, and records the worker if it never joined.
local function join(name, hold)
  local n = worker_of(hold)
  if not n then
    n = counter('worker')
    add('HSET', 'worker-of', hold, n)
    add('HSET', 'worker:' .. n, 'lease', name)
    add('HSET', 'worker:' .. n, 'hold', hold)
    add('HSET', 'worker:' .. n, 'since', now_text)
  end
  if not call('ZSCORE', prefix .. 'workers', n) then put('workers', 0, n) end
  drop('gone', n)
  return n
end

-- mark_gone marks a worker as gone.
local function mark_gone(n)
  drop('workers', n)
  put('gone', now, n)
end

-- remember adds an attempt that did not succeed to the task's history.
local function remember(t, n, outcome, started, ended, problem)
  local host = call('HGET', prefix .. 'worker:' .. t[WORKER], 'host') or ''
  local key = 'attempts:' .. t[ID]
  add('RPUSH', key, table.concat({n, host, outcome, text(started), text(ended), problem}, '\31'))
  if call('LLEN', prefix .. key) >= MOST_ATTEMPTS then
    order('LSET', key, FIRST_ATTEMPTS, '')
    order('LREM', key, 1, '')
  end
end

-- stop_running takes a task from its worker.
local function stop_running(t)
  mark('running:' .. t[WORKER], t[ID], false)
  if stop_of(t) ~= '' then mark('asked:' .. t[WORKER], t[ID], false) end
end

-- rescue takes a task from a worker that is gone, and says whether the task ended as crashed (Q4). The death counts
-- as a crash only of a suspect whose start was written; any other task only becomes suspect. A task that was asked to
-- stop ends canceled.
local function rescue(t)
  local stop = stop_of(t)
  stop_running(t)
  if t[SUSPECT] == 1 and t[BEGUN] == 1 then
    t[CRASHES] = t[CRASHES] + 1
    remember(t, t[ATTEMPTS] + 1, 'crashed', t[FETCHED], now, '')
  end
  t[SUSPECT] = 1
  local crashed = t[CRASHES] >= t[MAX_CRASHES]
  if crashed then
    conclude(t, CRASHED, '')
    tally(t, 'crashed')
  elseif stop ~= '' then
    cancel(t, stop)
  else
    wait_again(t)
    tally(t, 'rescued')
  end
  if t[LIMIT] > 0 then limits().give_back_slot(t) end
  return crashed
end

-- worker_info is what is known of a worker.
local function worker_info(n)
  return call('HMGET', prefix .. 'worker:' .. n, 'lease', 'hold', 'since', 'json')
end

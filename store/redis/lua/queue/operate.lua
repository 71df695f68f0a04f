-- Carries out an operator's operation on tasks (promise 23, Q7): retry, cancel, delete, discard, promote, move or
-- edit. Each task is answered by itself; all of it is one step, with one event.
--
-- ARGV: operation, new queue, new priority ('' for none), new instant ('' for none), the event's kind, what its words
-- end with, the queue in which the tasks must be, and the states, a byte each, of which they must be in one ('' for
-- any); then ids. Answers: now, then of each: answer, state, other id.
local operation, queue, priority, run_at, kind, tail, from, among = unpack(ARGV, 1, 8)
local DONE, ASKED, NOT_THERE, UNFIT, TAKEN, CHANGED_SINCE = 1, 2, 3, 4, 5, 6

-- retake gives a task that ended its unique key again (Q1), or answers the task that has it. A holder that has
-- expired, or whose window is over, gives way.
local function retake(t)
  if t[UNIQUE] == 0 then return nil end
  local other = owner(key_of(t))
  if other == t then other = nil end
  if other and in_window(other) and other[ENDED] + window_of(other) <= now then
    close_window(other)
  elseif other and waiting(other[STATE]) and other[EXPIRES] > 0 and other[EXPIRES] <= now then
    stop_waiting(other, DISCARDED, 'expired')
  elseif other then
    return other
  end
  own(key_of(t), t[ID])
  if t[UNIQUE] == STARTED then t[UNIQUE] = UNTIL_STARTED end
  return nil
end

-- retry puts a task back with a fresh budget of attempts. Its history stays.
local function retry(t)
  if final(t[STATE]) then
    local window = in_window(t)
    local other = retake(t)
    if other then return TAKEN, tonumber(other[ID]) end
    if window then drop('windows', t[ID]) end
    if t[STATE] ~= SUCCEEDED then drop('final:' .. t[STATE], t[ID]) end
  else
    withdraw(t)
    unwatch_expiry(t)
  end
  t[GRANTED], t[CRASHES], t[SNOOZES] = t[ATTEMPTS], 0, 0
  say(t, 'reason', '')
  t[ENDED], t[RUN_AT] = 0, now
  if t[EXPIRES] > 0 and t[EXPIRES] <= now then t[EXPIRES] = 0 end -- it was waited for; somebody wants it nevertheless
  wait_again(t)
  return DONE
end

-- put_anew changes what a waiting task is sorted by: it leaves where it is, changes, and enters again.
local function put_anew(t)
  local was = t[STATE]
  withdraw(t)
  if operation == 'promote' then
    t[FRONT], t[RUN_AT] = 1, math.min(t[RUN_AT], now)
  elseif operation == 'move' then
    count_state(t[SUBQUEUE], was, -1)
    t[SUBQUEUE] = subqueue_of(queue .. string.match(subqueue_name(t[SUBQUEUE]), '\31.*$'))
    count_state(t[SUBQUEUE], was, 1)
  else
    if priority ~= '' then t[PRIORITY] = tonumber(priority) end
    if run_at ~= '' then t[RUN_AT] = tonumber(run_at) end
  end
  touch(t)
  enter(t, was == RETRYABLE and RETRYABLE or SCHEDULED)
end

-- carry_out does the operation on one task, and answers what became of it.
local function carry_out(t)
  if not t then return NOT_THERE end
  if from ~= '' and queue_of(t[SUBQUEUE]) ~= from then return CHANGED_SINCE end
  if among ~= '' and not string.find(among, string.char(t[STATE]), 1, true) then return CHANGED_SINCE end
  if operation == 'retry' and (final(t[STATE]) or t[STATE] == RETRYABLE) then return retry(t) end
  if operation == 'cancel' and t[STATE] == RUNNING then
    more(t).stop = 'operator'
    touch(t)
    mark('asked:' .. t[WORKER], t[ID], true)
    return ASKED
  end
  if operation == 'delete' and final(t[STATE]) then
    delete(t)
    return DONE
  end
  if not waiting(t[STATE]) then return UNFIT end
  if operation == 'cancel' then
    stop_waiting(t, CANCELED, 'operator')
    tally(t, 'canceled')
  elseif operation == 'discard' then
    stop_waiting(t, DISCARDED, 'operator')
  elseif operation == 'promote' or operation == 'move' or operation == 'edit' then
    put_anew(t)
  else
    return UNFIT
  end
  return DONE
end

local ids = {}
for i = 9, #ARGV do ids[#ids + 1] = ARGV[i] end
load(ids)
local reply, done = {now}, {}
for _, id in ipairs(ids) do
  local t = rows[id]
  local answer, other
  if operation == 'delete' and unsound[id] then
    order('HDEL', 'rows:' .. page(id), id)
    order('HDEL', 'specs:' .. page(id), id)
    answer = DONE
  else
    answer, other = carry_out(t)
  end
  if answer <= ASKED then done[#done + 1] = id end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = answer, rows[id] and t[STATE] or 0, other or 0
end
if #done > 0 then
  local words = #done .. (#done == 1 and ' task: ' or ' tasks: ') .. table.concat(done, ' ', 1, math.min(#done, 20))
  if #done > 20 then words = words .. ' and ' .. #done - 20 .. ' more' end
  note(kind, words .. tail)
end
finish()
return reply

-- Ends runs (promises 17, 19 and 20). Each end is fenced: the task must run, under this token, by this worker, whose
-- lease is live. An end that repeats an earlier one under the same token is OK, since the answer to the first may
-- have been lost. Slots are given back and the next tasks promoted in the same step (Q5).
--
-- ARGV: the lease's name, its hold, then of each run: id, what became of it (RUN_END), its outcome, and its error.
-- Answers: now, then 1 (OK) or 2 (Gone) of each.
local RUN_END = '<dBdddI2c0'
local SUCCESS, RETRY, FAIL, CANCEL, DROP, SNOOZE, RETURN = 1, 2, 3, 4, 5, 6, 7
local becomes = {[SUCCESS] = SUCCEEDED, [FAIL] = FAILED, [CANCEL] = CANCELED, [DROP] = DISCARDED}

local OK, GONE = 1, 2
local worker = worker_of(ARGV[2])
local lives = worker and live(ARGV[1], ARGV[2])
local ids = {}
for i = 3, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
if worker then load(ids) end
local had = worker and marks('running:' .. worker)

-- carry_out ends one run. A task that was asked to stop, and is neither done nor failed, ends canceled.
local function carry_out(t, verdict, delay, reason, outcome, began, stopped, problem)
  had[t[ID]] = false
  local stop = stop_of(t)
  if stop ~= '' then mark('asked:' .. worker, t[ID], false) end
  t[TOLD] = 1
  local counts = verdict == SUCCESS or verdict < SNOOZE and outcome ~= ''
  if counts then t[ATTEMPTS] = t[ATTEMPTS] + 1 end
  if verdict ~= SUCCESS and outcome ~= '' then
    remember(t, counts and t[ATTEMPTS] or t[ATTEMPTS] + 1, outcome, began, stopped, problem)
  end
  if becomes[verdict] then
    conclude(t, becomes[verdict], reason)
  elseif stop ~= '' then -- it was asked to stop, and is not tried again
    cancel(t, stop)
  else
    if verdict == SNOOZE then t[SNOOZES] = t[SNOOZES] + 1 end
    if verdict ~= RETURN then t[RUN_AT] = now + delay end
    wait_again(t, verdict ~= RETURN and RETRYABLE)
  end
  if t[LIMIT] > 0 then limits().give_back_slot(t) end
end

local reply = {now}
for i = 3, #ARGV, 4 do
  local t, status = rows[ARGV[i]], GONE
  if t then
    local token, verdict, delay, began, stopped, reason = struct.unpack(RUN_END, ARGV[i + 1])
    local mine = t[WORKER] == worker
    if mine and lives and t[STATE] == RUNNING and t[TOKEN] == token then
      carry_out(t, verdict, delay, reason, ARGV[i + 2], began, stopped, ARGV[i + 3])
      status = OK
    elseif (mine or t[TOKEN] ~= token) and completed(t, token) then
      status = OK -- the answer to the first one was lost; who had it is not known any more where it was given anew
    end
  end
  reply[#reply + 1] = status
end
finish()
return reply

-- Writes that work begins, before it does (Q4). Each task must run, under this token, by this worker, whose lease is
-- live. A key that is held until the start is let go of here (Q1).
--
-- ARGV: the lease's name, its hold, then of each task: id, token. Answers: now, then 1 (OK) or 2 (Gone) of each.
local reply, worker, ids = {now}, live(ARGV[1], ARGV[2]) and worker_of(ARGV[2]), {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
if worker then load(ids) end
for i = 3, #ARGV, 2 do
  local t = worker and task(ARGV[i])
  local ok = t and t[STATE] == RUNNING and t[WORKER] == worker and t[TOKEN] == tonumber(ARGV[i + 1])
  if ok then
    t[BEGUN] = 1
    if t[UNIQUE] == UNTIL_STARTED then
      let_go(t)
      t[UNIQUE] = STARTED
    end
    touch(t)
  end
  reply[#reply + 1] = ok and 1 or 2
end
finish()
return reply

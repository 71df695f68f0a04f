-- One task for Admin, with its worker, its attempts and its limit's slots; of each of these STEP at most.
--
-- ARGV: id. Answers: now, row ('' where there is none), spec, {subqueue, name}, {worker, its hash}, {attempt, …},
-- {readable key, max, waiting, then of each holder: id, sub-queue's name, worker's hash, since}.
local t = task(ARGV[1])
if not t then return {now, unsound[ARGV[1]] or '', '', {}, {}, {}, {}} end

local function slots(l)
  local waiting = 0
  for _, subqueue in ipairs(call('SRANDMEMBER', prefix .. 'lines:' .. l.key, STEP)) do
    waiting = waiting + call('ZCARD', prefix .. 'behind:' .. l.key .. ':' .. subqueue)
  end
  local all = {call('HGET', prefix .. 'limit:' .. l.key, 'key') or '', l.max, waiting}
  local ids = call('SRANDMEMBER', prefix .. 'slots:' .. l.key, STEP)
  load(ids)
  for _, id in ipairs(ids) do
    local r = rows[id]
    if r then
      local n = #all
      all[n + 1], all[n + 2], all[n + 3], all[n + 4] = tonumber(id), subqueue_name(r[SUBQUEUE]), worker_info(r[WORKER]), r[FETCHED]
    end
  end
  return all
end

return {
  now, t[PACKED], call('HGET', prefix .. 'specs:' .. page(t[ID]), t[ID]) or '', {t[SUBQUEUE], subqueue_name(t[SUBQUEUE])},
  t[WORKER] > 0 and {t[WORKER], worker_info(t[WORKER])} or {},
  call('LRANGE', prefix .. 'attempts:' .. t[ID], -STEP, -1),
  t[LIMIT] > 0 and slots(limits().limit(more(t).limit_key)) or {},
}

-- A limit (Q5) is the hash 'limit:<key>': its readable key, max, and the last token. 'slots:<key>' has the tasks that
-- run, 'lines:<key>' the sub-queues in which some wait. Of each such sub-queue as many tasks as there are free slots
-- are ready, the first ones in order ('ahead:<key>:<subqueue>'). All others are blocked ('behind:<key>:<subqueue>',
-- and 'blocked:<subqueue>' by the instant at which they were due), and no fetch sees them. 'displacing:<key>' has
-- those that wait and declared Displace, by id. 'displaceable:<key>' has those that run, declared it, and have not
-- been asked to stop.
--
-- If more tasks must move than a step may, the limit is in 'untidy', with the line at which to go on: a cursor of
-- SSCAN, with a '+' behind it if slots came or went since that round began. Whatever changes its slots goes on there,
-- and so do Maintain, and a fetch that finds too little.
--
-- Most scripts have no task with a limit. So the functions are made only for the first one.
local limits_made
local function limits()
  if limits_made then return limits_made end
  local LOOKS = STEP -- at lines, beside the tasks that move
  local known, looks = {}, 0
  -- limit reads a limit, once. used is how many slots are taken.
  local function limit(key)
    local l = known[key]
    if not l then
      local v = call('HMGET', prefix .. 'limit:' .. key, 'max', 'token', 'untidy', 'said')
      l = {key = key, known = v[1], max = num(v[1]), token = num(v[2]), used = call('SCARD', prefix .. 'slots:' .. key), lines = {}}
      l.untidy, l.said = v[3] or nil, v[4] and tonumber(v[4])
      l.was_untidy = l.untidy
      known[key] = l
    end
    return l
  end

  -- free is how many slots are free. A lowered max stops nothing that runs, so it may be exceeded.
  local function free(l) return math.max(l.max - l.used, 0) end

  -- queues says that a task waits in line for its limit. A task that is to be discarded or to displace must be
  -- seen by a fetch for that, and is ready until then.
  local function queues(t) return t[LIMIT] == WAIT or t[LIMIT] == DISPLACED end

  -- A line is what this script knows of a sub-queue at a limit.
  local function line(l, subqueue)
    local d = l.lines[subqueue]
    if not d then
      d = {ahead = zset('ahead:' .. l.key .. ':' .. subqueue), behind = zset('behind:' .. l.key .. ':' .. subqueue), subqueue = subqueue}
      d.n = call('ZCARD', prefix .. d.ahead.key)
      l.lines[subqueue] = d
    end
    return d
  end

  -- go_ahead puts a task at the head of its line and makes it ready, go_behind among those that are blocked.
  local function go_ahead(d, t)
    put(d.ahead.key, sort_key(t), t[ID])
    d.n = d.n + 1
    offer(t)
  end

  local function go_behind(d, t)
    become(t, BLOCKED)
    put(d.behind.key, sort_key(t), t[ID])
    put('blocked:' .. t[SUBQUEUE], t[RUN_AT], t[ID])
  end

  -- nominate moves the first blocked task ahead. Its followers are read with it: as a rule they are next.
  local function nominate(d)
    local id, z = first(d.behind), d.behind
    if rows[id] == nil then
      local ids = {id}
      for i = z.at + 2, #z.page, 2 do ids[#ids + 1] = z.page[i] end
      load(ids)
    end
    take_first(z)
    drop('blocked:' .. d.subqueue, id)
    if rows[id] then go_ahead(d, rows[id]) end
  end

  -- step_back moves a task from ahead to behind.
  local function step_back(d, id)
    drop(d.ahead.key, id)
    d.n = d.n - 1
    local t = task(id)
    if not t then return end
    drop(ready_key(t), id)
    go_behind(d, t)
  end

  -- tidy does in one line what a changed number of free slots asks for, and says how many moved, and whether that was
  -- all.
  local function tidy(l, d)
    local n, room = 0, free(l)
    looks = looks + 1
    while true do
      local next_id, next_key = first(d.behind)
      local last_id, last_key
      if d.n > 0 and (d.n > room or next_id) then
        last_id, last_key = last_of(d.ahead)
        if not last_id then d.n = 0 end
      end
      local crowded, wanting = d.n > room, next_id and d.n < room
      if not crowded and not wanting and not (next_id and last_id and next_key < last_key) then return n, true end
      if enough() then return n, false end
      if not wanting then step_back(d, last_id) end
      if not crowded then nominate(d) end
      spend(n == 0 and 2 or 1) -- the first one also has its sub-queue counted and announced
      n = n + 1
    end
  end

  -- unlist forgets a line in which nobody waits.
  local function unlist(l, d)
    if d.n == 0 and d.listed ~= false and not first(d.behind) then
      mark('lines:' .. l.key, d.subqueue, false)
      d.listed = false
    end
  end

  -- tidy_all goes round the lines, and says how many moved. It looks at one page of them at least, and comes to all
  -- of that page unless it moves tasks: so every step gets on.
  local function tidy_all(l)
    local moved, n, all, at, fresh = 0, 0, true, '0', true
    if l.untidy then
      local plus
      at, plus = string.match(l.untidy, '^(%d+)(%+?)$')
      fresh = at == '0' or not l.dirty and plus == ''
    end
    l.dirty = false
    -- Those that this script has met come first: some may be new.
    for _, d in pairs(l.lines) do
      n, all = tidy(l, d)
      moved = moved + n
      if not all then break end
      unlist(l, d)
    end
    repeat
      local some = all and call('SSCAN', prefix .. 'lines:' .. l.key, at, 'COUNT', 100) or {at, none}
      for _, subqueue in ipairs(some[2]) do
        subqueue = tonumber(subqueue)
        if not l.lines[subqueue] then
          local d = line(l, subqueue)
          n, all = tidy(l, d)
          moved = moved + n
          if not all then break end
          unlist(l, d)
        end
      end
      if not all then
        l.untidy = at .. (fresh and '' or '+')
        return moved
      end
      at = some[1]
    until at == '0' or enough() or looks >= LOOKS
    l.untidy = at ~= '0' and at .. (fresh and '' or '+') or not fresh and '0' or nil
    return moved
  end

  -- resize sets what a task declares of its limit: the last one wins, and a change is an event. While an operator's
  -- word stands (said), the declaration is only remembered.
  local function resize(l, max, readable, by)
    if l.said then
      if l.said ~= max then add('HSET', 'limit:' .. l.key, 'said', max) end
      l.said = max
      return
    end
    if l.known and l.max == max then return end
    if l.known then
      local key = call('HGET', prefix .. 'limit:' .. l.key, 'key')
      note('limit-changed', quoted(key) .. ' from ' .. text(l.max) .. ' to ' .. text(max) .. by)
    else
      add('HSET', 'limit:' .. l.key, 'key', readable)
      add('HSET', 'limit:' .. l.key, 'token', '0')
      add('HSET', 'limit:' .. l.key, 'used', now_text)
      put('limits', 0, l.key)
    end
    add('HSET', 'limit:' .. l.key, 'max', max)
    l.known, l.max, l.dirty = true, max, true
    tidy_all(l)
  end

  -- say is an operator's word; max 0 takes it back.
  local function say(l, max, words, by)
    if max == 0 and not l.said or l.said and l.max == max then return end
    local at, declared = 'limit:' .. l.key, l.said or l.max
    local to = max > 0 and max or declared
    note('limit-changed', quoted(call('HGET', prefix .. at, 'key')) .. ' from ' .. text(l.max) .. ' to ' .. text(to) .. words)
    add('HSET', at, 'max', to)
    if max > 0 then
      add('HSET', at, 'said', declared)
      add('HSET', at, 'by', by)
      add('HSET', at, 'since', now_text)
      put('words', 0, l.key)
      l.said = declared
    else
      for _, name in ipairs({'said', 'by', 'since'}) do remove('HDEL', at, name) end
      drop('words', l.key)
      l.said = nil
    end
    l.max, l.dirty = to, true
    tidy_all(l)
  end

  -- limit_of is the limit of a task. One that was forgotten meanwhile is what the task declared.
  local function limit_of(t)
    local l = limit(more(t).limit_key)
    if not l.known then resize(l, more(t).max, '', '') end
    return l
  end

  -- arrange is tidy in one line, after a task came to it or left it.
  local function arrange(l, d)
    local _, all = tidy(l, d)
    if not all then l.untidy = l.untidy or '0' end
  end

  -- line_up puts a task into its line: ahead if there is room and nobody behind, else behind. Only a task that comes
  -- before the last one ahead needs more.
  local function line_up(t)
    local l = limit_of(t)
    local d = line(l, t[SUBQUEUE])
    if not d.listed then
      mark('lines:' .. l.key, t[SUBQUEUE], true)
      d.listed = true
    end
    local room = free(l)
    if d.n < room and not first(d.behind) then return go_ahead(d, t) end
    go_behind(d, t)
    if room == 0 then return end
    local _, last_key = last_of(d.ahead)
    if d.n < room or not last_key or sort_key(t) < last_key then arrange(l, d) end
  end

  -- leave_line takes a task out of its line, and lets the next one up.
  local function leave_line(t)
    local l = limit_of(t)
    local d = line(l, t[SUBQUEUE])
    if t[STATE] == BLOCKED then
      drop(d.behind.key, t[ID])
      drop('blocked:' .. t[SUBQUEUE], t[ID])
    else
      drop(d.ahead.key, t[ID])
      d.n = d.n - 1
    end
    arrange(l, d)
    unlist(l, d)
  end

  -- take_slot and give_back_slot only mark the limit: settle lets others up or down, once for all of them. A token
  -- given under a limit is larger than all earlier ones under it.
  local function take_slot(t)
    local l = limit_of(t)
    if queues(t) then
      local d = line(l, t[SUBQUEUE])
      drop(d.ahead.key, t[ID])
      d.n = d.n - 1
    end
    if t[LIMIT] >= DISPLACE then
      drop('displacing:' .. l.key, t[ID])
      mark('displaceable:' .. l.key, t[ID], true)
    end
    mark('slots:' .. l.key, t[ID], true)
    l.used = l.used + 1
    l.token = math.max(l.token + 1, t[TOKEN])
    t[TOKEN] = l.token
    l.dirty, l.taken = true, true
  end

  local function give_back_slot(t)
    local l = limit_of(t)
    mark('slots:' .. l.key, t[ID], false)
    if t[LIMIT] >= DISPLACE then mark('displaceable:' .. l.key, t[ID], false) end
    l.used = l.used - 1
    l.dirty = true
  end

  -- go_on continues tidy_all for up to n limits where it is not done. It says whether there is more.
  local function go_on(n)
    for _, key in ipairs(call('SRANDMEMBER', prefix .. 'untidy', n)) do
      local l = limit(key)
      if not l.known or not l.untidy then mark('untidy', key, false) elseif not enough() then tidy_all(l) end
      if l.known and l.untidy then return true end
    end
    return false
  end

  -- settle lets others up or down at each limit whose slots changed in this script.
  local function settle()
    for _, l in pairs(known) do
      if l.dirty and looks < LOOKS then
        tidy_all(l)
      elseif l.dirty then
        l.untidy = (string.match(l.untidy or '0', '%d+')) .. '+'
      end
    end
  end

  -- unfinished reports whether a limit that this script has met is left with something to do.
  local function unfinished()
    for _, l in pairs(known) do
      if l.untidy then return true end
    end
    return false
  end

  -- write keeps what changed of the limits themselves.
  local function write()
    for key, l in pairs(known) do
      if l.taken then
        add('HSET', 'limit:' .. key, 'token', text(l.token))
        add('HSET', 'limit:' .. key, 'used', now_text)
      end
      if l.untidy ~= l.was_untidy then
        if l.untidy then add('HSET', 'limit:' .. key, 'untidy', l.untidy) else remove('HDEL', 'limit:' .. key, 'untidy') end
        mark('untidy', key, l.untidy ~= nil)
      end
    end
  end

  limits_made = {
    limit = limit,
    limit_of = limit_of,
    free = free,
    queues = queues,
    line = line,
    step_back = step_back,
    line_up = line_up,
    leave_line = leave_line,
    take_slot = take_slot,
    give_back_slot = give_back_slot,
    resize = resize,
    say = say,
    tidy_all = tidy_all,
    go_on = go_on,
    settle = settle,
    unfinished = unfinished,
    write = write,
  }
  return limits_made
end

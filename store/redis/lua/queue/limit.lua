-- A limit is the hash 'limit:<key>': its readable key, max, and the last token. 'slots:<key>' are the
-- tasks that run, 'doors:<key>' the lanes in which some wait. Of each such lane as many tasks as
-- there are free slots are on the shelf, the first ones in order ('ahead:<key>:<lane>'); all
-- others are blocked ('behind:<key>:<lane>', and 'blocked:<lane>' by the instant they were due), and no
-- fetch meets them. 'rivals:<key>' are those that wait and declared Displace, by id.
--
-- Most scripts meet no task with a limit, so the functions are made when the first one is met.
local limits_made
local function limits()
  if limits_made then return limits_made end
  local known = {}
  local function limit(key)
    local l = known[key]
    if not l then
      local v = call('HMGET', prefix .. 'limit:' .. key, 'max', 'token')
      l = {key = key, known = v[1], max = num(v[1]), token = num(v[2]), used = call('SCARD', prefix .. 'slots:' .. key), doors = {}}
      known[key] = l
    end
    return l
  end

  local function free(l) return math.max(l.max - l.used, 0) end

  -- queues says that t waits in line for its limit. What wants to be discarded or to displace must meet a
  -- fetch to do so, and waits in the open until then.
  local function queues(t) return t[LIMIT] == WAIT or t[LIMIT] == DISPLACED end

  -- A door is what this script knows of a lane at a limit.
  local function door(l, lane)
    local d = l.doors[lane]
    if not d then
      d = {ahead = 'ahead:' .. l.key .. ':' .. lane, behind = 'behind:' .. l.key .. ':' .. lane, lane = lane}
      d.n = call('ZCARD', prefix .. d.ahead)
      l.doors[lane] = d
    end
    return d
  end

  local function first(key, command)
    settle()
    local v = call(command, prefix .. key, 0, 0, 'WITHSCORES')
    return v[1], v[2] and tonumber(v[2])
  end

  local function go_ahead(d, t)
    put(d.ahead, rank(t), t[ID])
    d.n, d.last = d.n + 1, nil
    offer(t)
  end

  local function go_behind(d, t)
    become(t, BLOCKED)
    put(d.behind, rank(t), t[ID])
    put('blocked:' .. t[LANE], t[RUN_AT], t[ID])
  end

  local function nominate(d, id)
    local t = task(id)
    drop(d.behind, id)
    drop('blocked:' .. t[LANE], id)
    go_ahead(d, t)
  end

  local function step_back(d, id)
    local t = task(id)
    drop(d.ahead, id)
    d.n, d.last = d.n - 1, nil
    drop(shelf(t), id)
    go_behind(d, t)
  end

  -- tidy does at one door what a changed number of free slots asks for, and says how many moved (rule Q5).
  local function tidy(l, d)
    local n, room = 0, free(l)
    while d.n > room do
      step_back(d, (first(d.ahead, 'ZREVRANGE')))
      n = n + 1
    end
    while d.n < room do
      local id = first(d.behind, 'ZRANGE')
      if not id then break end
      nominate(d, id)
      n = n + 1
    end
    if d.n > 0 then
      local next_id, next_rank = first(d.behind, 'ZRANGE')
      while next_id do
        local last_id, last_rank = first(d.ahead, 'ZREVRANGE')
        if last_rank < next_rank then break end
        step_back(d, last_id)
        nominate(d, next_id)
        n = n + 1
        next_id, next_rank = first(d.behind, 'ZRANGE')
      end
    end
    return n
  end

  -- unlist forgets a door at which nobody waits.
  local function unlist(l, d)
    if d.n == 0 and not first(d.behind, 'ZRANGE') then
      call('SREM', prefix .. 'doors:' .. l.key, d.lane)
      d.listed = false
    end
  end

  local function tidy_all(l)
    local n = 0
    for _, lane in ipairs(call('SMEMBERS', prefix .. 'doors:' .. l.key)) do
      local d = door(l, tonumber(lane))
      n = n + tidy(l, d)
      unlist(l, d)
    end
    return n
  end

  local function resize(l, max, readable, by)
    if l.known and l.max == max then return end
    if l.known then
      local key = call('HGET', prefix .. 'limit:' .. l.key, 'key')
      note('limit-changed', quoted(key) .. ' from ' .. text(l.max) .. ' to ' .. text(max) .. by)
      call('HSET', prefix .. 'limit:' .. l.key, 'max', max)
    else
      call('HSET', prefix .. 'limit:' .. l.key, 'max', max, 'key', readable, 'token', '0', 'used', now_text)
      call('ZADD', prefix .. 'limits', 0, l.key)
    end
    l.known, l.max = true, max
    tidy_all(l)
  end

  -- limit_of is the limit of a task. One that was forgotten meanwhile is what the task declared.
  local function limit_of(t)
    local l = limit(more(t).limit_key)
    if not l.known then resize(l, more(t).max, '', '') end
    return l
  end

  -- line puts t at its door: ahead where there is room and nobody else behind, and behind otherwise. Only
  -- one that comes before the last ahead needs more.
  local function line(t)
    local l = limit_of(t)
    local d = door(l, t[LANE])
    if not d.listed then
      call('SADD', prefix .. 'doors:' .. l.key, t[LANE])
      d.listed = true
    end
    local room = free(l)
    if d.n < room and not first(d.behind, 'ZRANGE') then return go_ahead(d, t) end
    go_behind(d, t)
    if d.n < room then return tidy(l, d) end
    if room > 0 then
      if not d.last then
        local _, last = first(d.ahead, 'ZREVRANGE')
        d.last = last
      end
      if rank(t) < d.last then tidy(l, d) end
    end
  end

  -- leave_line takes t from its door, and lets the next one up.
  local function leave_line(t)
    local l = limit_of(t)
    local d = door(l, t[LANE])
    if drop(d.ahead, t[ID]) then
      d.n, d.last = d.n - 1, nil
    else
      drop(d.behind, t[ID])
      drop('blocked:' .. t[LANE], t[ID])
    end
    tidy(l, d)
    unlist(l, d)
  end

  local function take_slot(t)
    local l = limit_of(t)
    if queues(t) then
      local d = door(l, t[LANE])
      if drop(d.ahead, t[ID]) then d.n, d.last = d.n - 1, nil end
    end
    if t[LIMIT] >= DISPLACE then drop('rivals:' .. l.key, t[ID]) end
    call('SADD', prefix .. 'slots:' .. l.key, t[ID])
    l.used = l.used + 1
    if l.token >= t[TOKEN] then t[TOKEN] = l.token + 1 end
    l.token = t[TOKEN]
    call('HSET', prefix .. 'limit:' .. l.key, 'token', text(t[TOKEN]), 'used', now_text)
    tidy_all(l)
  end

  local function give_back_slot(t)
    local l = limit_of(t)
    if call('SREM', prefix .. 'slots:' .. l.key, t[ID]) == 1 then l.used = l.used - 1 end
    tidy_all(l)
  end

  limits_made = {
    limit = limit,
    limit_of = limit_of,
    free = free,
    queues = queues,
    door = door,
    step_back = step_back,
    line = line,
    leave_line = leave_line,
    take_slot = take_slot,
    give_back_slot = give_back_slot,
    resize = resize,
    tidy_all = tidy_all,
  }
  return limits_made
end

-- Settles ticks (T4): inserts rows of outcomes and raises the mark, in one step. It does nothing if the mark or the
-- definition is no longer the one that the caller read. It may settle less than it was asked to, and answers how far
-- the mark went.
--
-- ARGV: job, from, to, generation ('0' for any), then of each row: at, through ('0' for a single tick), count,
-- outcome, reason, inferred, ended ('0' for now). Answers: now, status, nothing, the mark.
local job, from, to, generation = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local key = prefix .. 'job:' .. job
local j = call('HMGET', key, 'mark', 'generation')
if j[1] ~= from or generation ~= '0' and j[2] ~= generation then return {now, TAKEN} end

-- The mark stops before what cannot be settled yet. First: just before the oldest unfinished tick above it.
local function before(at) to = math.min(to, tonumber(at) - 1) end
local oldest = call('ZRANGEBYSCORE', prefix .. 'open:' .. job, '(' .. from, '+inf', 'LIMIT', 0, 1)[1]
if oldest then before(string.match(oldest, '^%d+')) end
-- Second: before a range row that would cover a tick with a row of its own, which would then have two outcomes.
for i = 5, #ARGV, 7 do
  local at, through = ARGV[i], ARGV[i + 1]
  if through ~= '0' and call('ZCOUNT', prefix .. 'ticks:' .. job, at, through) > 0 then before(at) end
end
-- Third: before a range that it would cut in two. That may lower it into an earlier range: the rows come in the order
-- of their instants, and are looked at from the last one.
for i = #ARGV - 6, 5, -7 do
  local at, last = tonumber(ARGV[i]), math.max(tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
  if at <= to and last > to then before(at) end
end

-- insert inserts a row at or below the mark, or nothing if there is one.
local function insert(at, through, count, outcome, reason, inferred, ended)
  local m = member(job, at)
  if math.max(tonumber(at), tonumber(through)) > to then return end
  if get(prefix .. 'tick:' .. m, 'job')[1] then return end
  index(job, at, m)
  if through ~= '0' then
    plan('ZADD', prefix .. 'ranges', through, m)
    plan('ZADD', prefix .. 'ranges:' .. job, through, m)
  end
  if ended == '0' then ended = now_text end
  set(prefix .. 'tick:' .. m, 'job', job, 'at', at, 'through', through, 'count', count, 'state', 'closed',
    'outcome', outcome, 'reason', reason, 'inferred', inferred, 'ended', ended)
end

for i = 5, #ARGV, 7 do insert(unpack(ARGV, i, i + 6)) end
if to > tonumber(from) then plan('HSET', key, 'mark', text(to)) end
write_planned()
return {now, WON, false, text(to)}

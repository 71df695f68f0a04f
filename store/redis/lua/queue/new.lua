-- What both scripts that enqueue begin with.
--
-- ARGV: fresh installation id, layout, longest TTL (for identity), how many sub-queues and how many limits; the
-- sub-queues' names; of each limit: its key, and the readable one; then of each task: what is asked for (PLAIN, or
-- ASKED and the unique key), and its spec. Answers: now, then of each: 16 times the answer and the state, id.
--
-- What is asked for ends with the key, so that the rest is alike in most tasks of a batch.
local PLAIN, PLAIN_SIZE = '<I2bddI4', 23
local ASKED, ASKED_SIZE = '<I2bddI4dBBddBI4I2', 56
local NEW, DUPLICATE, UPDATED = 1, 2, 3

-- Without the namespace's record the data is gone. This write makes the record anew, and so holds leases back from
-- now on (L9).
if call('HEXISTS', prefix .. 'meta', 'id') == 0 then
  begins = function()
    identity(ARGV[1], ARGV[2], ARGV[3], 0, 0)
    write_planned()
  end
end

local subqueues, named, from = {}, {}, 6
for i = 1, tonumber(ARGV[4]) do
  subqueues[i] = subqueue_of(ARGV[from])
  from = from + 1
end
for i = 1, tonumber(ARGV[5]) do
  named[i] = {key = ARGV[from], readable = ARGV[from + 1]}
  from = from + 2
end

-- Ids are taken from last. A page's first id is a multiple of a thousand, but for 1.
local last = num(call('HGET', prefix .. 'queue', 'id'))
local function due(run_at, delay) return (run_at > 0 and run_at or now) + delay end

local reply = {now}

// Package counters has the counters of queues: what is counted under which name, and what the counts of a stretch of
// time say (Summarize).
//
// A store keeps sums per minute, queue, kind and name (driver.Count). Clients and workers add what they see with a
// Tally; a store adds what only it sees, under the names here. They are bookkeeping: no promise rests on them.
package counters

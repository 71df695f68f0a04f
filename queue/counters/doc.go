// Package counters defines the counters of queues: their names, and a summary of the counters of a period
// (Summarize).
//
// A store keeps sums per minute, queue, kind and name (driver.Count). Clients and workers add what they see with a
// Tally; a store adds what only it sees, under the names here. They are bookkeeping: no promise depends on them.
package counters

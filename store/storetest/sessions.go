package storetest

import (
	"slices"
	"testing"
)

// RunSession checks that a store works, and keeps text and bytes as they are, whatever settings its sessions get from
// the user, the database or the server.
func RunSession(t *testing.T, open Open, url string) {
	t.Helper()
	group(t, "session", open, url, []promise{
		{"a stale holder is refused", staleHolder},
		{"a record comes back as it was written", roundTrip},
		{"a definition has a generation, a beginning and a mark", defineJobs},
		{"jobs are listed by a literal prefix", listJobs},
		{"a claimed row comes back as it was written", claimRoundTrip},
		{"events come back as they were written", eventRoundTrip},
		{"output is replaced, and nil where there is none", tellOutput},
		{"a task is enqueued, fetched, and succeeds", oneTask},
		{"a batch is answered item by item", enqueueBatch},
		{"a task comes back as it was enqueued", taskRoundTrip},
		{"a dead worker's tasks become suspect, and no crash counts", rescued},
	})
}

// RunRights checks that a user's rights are enough for all that a store does: leases, ticks, history, queues, their
// maintenance and pruning.
func RunRights(t *testing.T, open Open, url string) {
	t.Helper()
	if newWorld(t, open, url).s.Notify != nil {
		group(t, "notification", open, url, notifyPromises[:1])
	}
	group(t, "rights", open, url, slices.Concat(breakPromises, closePromises, takePromises, jobPromises, settlePromises,
		historyPromises, walkPromises, twinPromises, listPromises))
}

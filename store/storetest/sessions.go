package storetest

import "testing"

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

package counters

// The names of counters (driver.Count.Name). A reason follows discarded and duplicate after a colon.
const (
	Enqueued  = "enqueued"
	Duplicate = "duplicate" // + ":" + the scope, such as finished
	Updated   = "replaced"
	Succeeded = "succeeded"
	Retried   = "retried"   // failed attempts that are followed by another one
	Postponed = "postponed" // put off by their handler, or by exit status 75
	Returned  = "returned"  // handed back: no slot was free, or the worker ended
	Failed    = "failed"
	Canceled  = "canceled"
	Discarded = "discarded" // + ":" + the reason
	Crashed   = "crashed"
	Rescued   = "rescued"
	Stale     = "stale" // reports that were refused: another worker had the task by then
	// Wait and Work are histograms: their names continue with ":" and the upper bound of the bucket in ms, a power
	// of two.
	Wait = "wait"
	Work = "work"
)

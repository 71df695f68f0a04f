package driver

import "time"

// Completion is how a run of a task ended.
type Completion struct {
	Ref
	Verdict Verdict
	// Delay is the time from now until the task can be fetched again, for Retry and Snooze.
	Delay time.Duration
	// Reason goes with a final verdict.
	Reason string
	// Outcome, Started, Ended and Error describe the attempt; see Attempt. Outcome may be empty for Success. With
	// any other verdict, an empty Outcome means that the work never began: no attempt is counted, and none is kept.
	Outcome        string
	Started, Ended time.Time
	Error          string
}

// Counts reports whether an attempt of the task was made.
func (c *Completion) Counts() bool {
	return c.Verdict == Success || c.Verdict != Snooze && c.Verdict != Return && c.Outcome != ""
}

// Verdict is what happens to a task after a run.
type Verdict uint8

// The verdicts. All but Snooze and Return count the attempt. A task that was asked to stop is not tried again: if a
// verdict would make it wait, it ends as canceled, with the reason for which it was asked to stop.
const (
	Success Verdict = iota + 1 // succeeded
	Retry                      // retryable, after Delay
	Fail                       // failed
	Cancel                     // canceled
	Drop                       // discarded
	Snooze                     // retryable, after Delay; no attempt, one snooze
	Return                     // available, in its place; no attempt
)

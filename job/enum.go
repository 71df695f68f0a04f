package job

import (
	"fmt"
	"slices"
	"strings"
)

// Concurrency decides what happens when a run is due while another one holds the job.
type Concurrency string

// The values of Concurrency, spelled as in a manifest.
const (
	Allow   Concurrency = "Allow"   // both run
	Forbid  Concurrency = "Forbid"  // the newcomer is skipped
	Replace Concurrency = "Replace" // the holder is stopped, then the newcomer runs
	Wait    Concurrency = "Wait"    // one newcomer waits and runs when the holder has ended
)

// Scope is how far a job's exclusion and its ticks reach.
type Scope string

// The scopes.
const (
	Host   Scope = "host"   // each host runs every tick
	Global Scope = "global" // one host of the fleet does
)

// CatchUp decides which missed ticks are run later.
type CatchUp string

// The values of CatchUp.
const (
	CatchUpSkip   CatchUp = "skip"
	CatchUpLatest CatchUp = "latest"
	CatchUpAll    CatchUp = "all"
)

// OnCrash decides what follows a run that crashed, was lost, or was stopped by a shutdown (rule T3).
type OnCrash string

// The values of OnCrash.
const (
	CrashSkip  OnCrash = "skip"
	CrashRerun OnCrash = "rerun"
)

// Leftovers decides what happens to processes that outlive the command that started them (rule L7).
type Leftovers string

// The values of Leftovers.
const (
	LeftoversWait  Leftovers = "wait"  // the lease lasts until they are gone
	LeftoversKill  Leftovers = "kill"  // after StopGrace
	LeftoversLeave Leftovers = "leave" // the lease is released at once
)

// OnLostRequest decides when a job may run again after its lease expired while its request was in progress (rule
// L8).
type OnLostRequest string

// The values of OnLostRequest.
const (
	LostRequestWait    OnLostRequest = "wait" // not before that request must have ended
	LostRequestProceed OnLostRequest = "proceed"
)

// Redirects decides which redirects of a request are followed.
type Redirects string

// The values of Redirects, and the two words that can be used instead of a proxy's address.
const (
	RedirectsNone       Redirects = "none"
	RedirectsSameOrigin Redirects = "same_origin"

	ProxyEnvironment = "environment"
	ProxyNone        = "none"
)

// DST decides what happens to a fixed time that the wall clock skips or shows twice.
type DST string

// The values of DST; docs/reference/schedules.md describes them in full.
const (
	DSTVixie  DST = "vixie"  // due once: left out, at the first instant after the gap
	DSTSkip   DST = "skip"   // due at most once: left out, not that day
	DSTRepeat DST = "repeat" // due as often as the clock shows it
)

// The Parse functions accept exactly a manifest's spelling. ParseConcurrency also accepts it all in lower case, as
// people type flags; a manifest's reader compares the result with its input.

// ParseConcurrency reads "Forbid" or "forbid", and so on.
func ParseConcurrency(s string) (Concurrency, error) {
	all := []Concurrency{Allow, Forbid, Replace, Wait}
	for _, c := range all {
		if s == strings.ToLower(string(c)) {
			return c, nil
		}
	}
	return parse(s, all...)
}

// ParseScope reads "host" or "global".
func ParseScope(s string) (Scope, error) { return parse(s, Host, Global) }

// ParseCatchUp reads "skip", "latest" or "all".
func ParseCatchUp(s string) (CatchUp, error) { return parse(s, CatchUpSkip, CatchUpLatest, CatchUpAll) }

// ParseOnCrash reads "skip" or "rerun".
func ParseOnCrash(s string) (OnCrash, error) { return parse(s, CrashSkip, CrashRerun) }

// ParseLeftovers reads "wait", "kill" or "leave".
func ParseLeftovers(s string) (Leftovers, error) {
	return parse(s, LeftoversWait, LeftoversKill, LeftoversLeave)
}

// ParseOnLostRequest reads "wait" or "proceed".
func ParseOnLostRequest(s string) (OnLostRequest, error) {
	return parse(s, LostRequestWait, LostRequestProceed)
}

// ParseDST reads "vixie", "skip" or "repeat".
func ParseDST(s string) (DST, error) { return parse(s, DSTVixie, DSTSkip, DSTRepeat) }

func parse[T ~string](s string, all ...T) (T, error) {
	if i := slices.Index(all, T(s)); i >= 0 {
		return all[i], nil
	}
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = string(v)
	}
	last := len(words) - 1
	return "", fmt.Errorf("%q: want %s or %s", s, strings.Join(words[:last], ", "), words[last])
}

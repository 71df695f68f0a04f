package job

import (
	"fmt"
	"slices"
	"strings"
)

// Concurrency is what happens when a run is due while another one holds the job.
type Concurrency string

// The concurrencies, spelled as in a manifest.
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

// CatchUp is which missed ticks are run afterwards.
type CatchUp string

// The ways to catch up.
const (
	CatchUpSkip   CatchUp = "skip"
	CatchUpLatest CatchUp = "latest"
	CatchUpAll    CatchUp = "all"
)

// OnCrash is what follows a run that crashed, was lost, or was stopped by a shutdown (rule T3).
type OnCrash string

// The answers to a crash.
const (
	CrashSkip  OnCrash = "skip"
	CrashRerun OnCrash = "rerun"
)

// Leftovers is what becomes of processes that outlive the command that started them (rule L7).
type Leftovers string

// The ways with leftovers.
const (
	LeftoversWait  Leftovers = "wait"  // the lease lasts until they are gone
	LeftoversKill  Leftovers = "kill"  // after StopGrace
	LeftoversLeave Leftovers = "leave" // the lease is released at once
)

// OnLostRequest is when a job may run again whose request was under way as its lease lapsed (rule L8).
type OnLostRequest string

// The answers to a lost request.
const (
	LostRequestWait    OnLostRequest = "wait" // not before that request must have ended
	LostRequestProceed OnLostRequest = "proceed"
)

// Redirects is which redirects of a request are followed.
type Redirects string

// The ways with redirects, and the two words that may stand in the place of a proxy's address.
const (
	RedirectsNone       Redirects = "none"
	RedirectsSameOrigin Redirects = "same_origin"

	ProxyEnvironment = "environment"
	ProxyNone        = "none"
)

// DST is what becomes of a fixed time that the wall clock leaves out or shows twice.
type DST string

// The meanings of daylight saving; docs/reference/schedules.md has them in full.
const (
	DSTVixie  DST = "vixie"  // due once: left out, at the first instant after the gap
	DSTSkip   DST = "skip"   // due at most once: left out, not that day
	DSTRepeat DST = "repeat" // due as often as the clock shows it
)

// The Parse functions accept exactly a manifest's spelling. ParseConcurrency also takes it all
// in lower case, as people type flags; a manifest's reader compares the answer with its input.

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

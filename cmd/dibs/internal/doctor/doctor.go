// Package doctor finds dangerous configurations before they bite (promise 25): each finding says
// what is wrong, where, and how it is cured. Its checks are functions of what they are told; who
// calls them opens the store and looks at the host.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
)

// A Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // a promise does not hold, or nothing runs
	Warning Severity = "warning" // it will bite in some situation
	Info    Severity = "info"    // how things are
)

// A Finding is one thing that somebody should know. Its JSON is a stable form.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check names what was looked at, such as "clock-offset"; names stay.
	Check string `json:"check"`
	What  string `json:"what"`
	Where string `json:"where"`
	// Cure is what to do; empty where nothing has to be.
	Cure string `json:"cure,omitempty"`
}

// found makes a finding.
func found(s Severity, check, where, cure, what string, args ...any) Finding {
	return Finding{Severity: s, Check: check, What: fmt.Sprintf(what, args...), Where: where, Cure: cure}
}

// Sort puts the worst first; findings of one severity keep their order.
func Sort(all []Finding) {
	rank := []Severity{Error, Warning, Info}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(rank, a.Severity), slices.Index(rank, b.Severity))
	})
}

// Count is how many findings have a severity.
func Count(all []Finding, s Severity) (n int) {
	for _, f := range all {
		if f.Severity == s {
			n++
		}
	}
	return n
}

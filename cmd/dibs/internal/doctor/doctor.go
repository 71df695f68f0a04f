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

// Fold puts findings of one severity and check together, in the order of the first of each, and among these those that
// say the same of several places.
func Fold(all []Finding) (checks [][][]Finding) {
	for _, check := range groups(all, func(f Finding) Finding { return Finding{Severity: f.Severity, Check: f.Check} }) {
		checks = append(checks, groups(check, func(f Finding) Finding { f.Where = ""; return f }))
	}
	return checks
}

// groups puts findings with the same key together, in the order of the first of each.
func groups(all []Finding, key func(Finding) Finding) (found [][]Finding) {
	at := map[Finding]int{}
	for _, f := range all {
		i, known := at[key(f)]
		if !known {
			i, found = len(found), append(found, nil)
			at[key(f)] = i
		}
		found[i] = append(found[i], f)
	}
	return found
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

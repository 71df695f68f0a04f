package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
)

const (
	// fullID is the length of a run's id.
	fullID = 36
	// leastID is the shortest beginning of one that is looked for: it says when the run was made, to about a minute.
	leastID = 8
	// shownID is the shortest beginning that is shown: it says the millisecond.
	shownID = 13
)

// mayBeRun says whether a name may be the id of a run, or the beginning of one.
func mayBeRun(name string) bool {
	_, _, ok := madeAt(strings.ToLower(name))
	return ok && len(name) <= fullID
}

// runsNamed are the runs that q asks for, whose RunID may be the beginning of an id, if only one begins so.
func runsNamed(ctx context.Context, h history.Store, q history.Query) ([]run.Record, error) {
	begins := strings.ToLower(q.RunID)
	made, span, ok := madeAt(begins)
	if ok {
		q.RunID = begins
	}
	if begins == "" || len(begins) >= fullID || !ok {
		return h.Runs(ctx, q)
	}
	q.RunID, q.Limit = "", mostRead
	q.From = made.Add(-time.Minute) // clocks of hosts and stores differ
	// A run that waited for its lease has started later than it was made.
	var found []run.Record
	for late := time.Minute; len(found) == 0 && late < 30*24*time.Hour; late *= 30 {
		q.To = made.Add(span + late)
		runs, err := h.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(runs, func(r run.Record) bool { return !strings.HasPrefix(r.ID, begins) })
	}
	if len(found) > 1 {
		ids := make([]string, len(found))
		for i, r := range found {
			ids[i] = r.ID
		}
		return nil, fmt.Errorf("%d runs have an id that begins with %s: %s …", len(ids), begins, strings.Join(ids[:min(3, len(ids))], ", "))
	}
	return found, nil
}

// madeAt is when a run was made whose id begins so, at the earliest, and within how long after that: a UUID of
// version 7 begins with its milliseconds.
func madeAt(begins string) (at time.Time, span time.Duration, ok bool) {
	digits := strings.ReplaceAll(begins, "-", "")
	if len(digits) < leastID {
		return at, 0, false
	}
	digits = digits[:min(len(digits), 12)]
	missing := 12 - len(digits)
	b, err := hex.DecodeString(digits + strings.Repeat("0", missing))
	if err != nil {
		return at, 0, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms), time.Duration(int64(1)<<(4*missing)) * time.Millisecond, true
}

// shortIDs are the beginnings by which ids can be told apart. What is no id is left as it is.
func shortIDs(ids []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	short := make([]string, len(ids))
	for i, id := range ids {
		short[i] = id
		if len(id) != fullID {
			continue
		}
		at, _ := slices.BinarySearch(sorted, id)
		n := shownID
		for _, other := range sorted[max(at-1, 0):min(at+2, len(sorted))] {
			if other != id {
				n = max(n, common(id, other)+1)
			}
		}
		short[i] = strings.TrimSuffix(id[:n], "-")
	}
	return short
}

// common is how much two ids have in common at their beginning.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

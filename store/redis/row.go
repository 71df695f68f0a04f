package redis

import (
	"encoding/json"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// parseTick reads what tick.lua's row answers; no row is the zero Tick.
func parseTick(r reply) tick.Tick {
	if len(r) == 0 {
		return tick.Tick{}
	}
	t := tick.Tick{
		Job: r.text(0), At: r.time(1), Through: r.time(2), Count: int(r.int(3)), State: tick.State(r.text(4)),
		Lease: parseHold(lease.Key(r.text(5)), r.text(6)), RunID: r.text(8),
		Outcome: run.Outcome(r.text(9)), Reason: r.text(10), Inferred: r.text(11) == "1", Reruns: int(r.int(12)),
		Claimed: r.time(13), Started: r.time(14), Ended: r.time(15), Live: r.int(16) == 1,
	}
	if h := parseHolder(r.text(7)); h != nil {
		t.Claimant = *h
	}
	return t
}

// parseTicks reads rows after the instant with which a reply begins.
func parseTicks(r reply) []tick.Tick {
	var all []tick.Tick
	for i := 1; i < len(r); i++ {
		all = append(all, parseTick(r.list(i)))
	}
	return all
}

// runArgs are the arguments of run.lua's insert_run.
func runArgs(r run.Record) args {
	return args{r.ID, runHold(r), r.Job, micros(r.Tick), r.Host, r.PID, r.Command, micros(r.Started),
		string(r.Outcome), r.Reason, flag(r.Inferred), micros(r.Ended), attempts(r.Attempts), cause(r.Cause)}
}

// runFields are what parseRun reads, in its order.
var runFields = []string{"id", "job", "tick", "hold", "host", "pid", "command", "outcome", "reason", "inferred", "started", "ended", "attempts", "cause"}

func parseRun(r reply) run.Record {
	fence := parseHold("", r.text(3))
	rec := run.Record{
		ID: r.text(0), Job: r.text(1), Tick: r.time(2), Owner: fence.Owner, Token: fence.Token,
		Host: r.text(4), PID: int(r.int(5)), Command: r.text(6), Outcome: run.Outcome(r.text(7)), Reason: r.text(8),
		Inferred: r.text(9) == "1", Started: r.time(10), Ended: r.time(11),
	}
	if s := r.text(12); s != "" {
		_ = json.Unmarshal([]byte(s), &rec.Attempts) // told, never decided upon
	}
	if s := r.text(13); s != "" {
		_ = json.Unmarshal([]byte(s), &rec.Cause)
	}
	return rec
}

// attempts are kept as JSON; instants to the microsecond, as everywhere.
func attempts(all []run.Attempt) string {
	if len(all) == 0 {
		return ""
	}
	kept := make([]run.Attempt, len(all))
	for i, a := range all {
		a.Started, a.Ended = whole(a.Started), whole(a.Ended)
		kept[i] = a
	}
	return text(kept)
}

// cause is kept as JSON too.
func cause(c *run.Cause) string {
	if c == nil {
		return ""
	}
	kept := *c
	kept.Again = whole(kept.Again)
	return text(kept)
}

// whole is t as the store keeps it.
func whole(t time.Time) time.Time { return instant(micros(t)) }

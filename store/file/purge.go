//go:build linux

package file

import "github.com/dibs-run/dibs/run"

// purge writes down the run of a dead hold before its record is overwritten.
func (l *leases) purge(old *record, now instant) error {
	if old.Run == nil {
		return nil
	}
	return l.journal.append(crashed(*old.Run, now))
}

// crashed is the run of a dead hold, as crashed.
func crashed(r run.Record, now instant) run.Record {
	r.Outcome, r.Reason, r.Inferred, r.Ended = run.Crashed, "its lock was free and it had not reported", true, now.time()
	return r
}

// conclude writes how the run of a record ended into the journal.
func (l *leases) conclude(r *record, report run.Record) error {
	ended := *r.Run
	ended.Outcome, ended.Reason, ended.Inferred, ended.Attempts = report.Outcome, report.Reason, report.Inferred, report.Attempts
	ended.Ended = endOf(report)
	return l.journal.append(ended)
}

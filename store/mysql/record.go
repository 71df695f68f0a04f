package mysql

import (
	"database/sql"

	"github.com/dibs-run/dibs/lease"
)

// records collects lease records by key.
type records map[lease.Key]lease.Record

func (m records) read(r *sql.Rows) error { return m.add(r) }

// beside reads rows that have something else before each record.
func (m records) beside(also ...any) reader {
	return func(r *sql.Rows) error { return m.add(r, also...) }
}

func (m records) add(r *sql.Rows, also ...any) error {
	rec, there, err := scanRecord(r, also...)
	if there {
		m[rec.Key] = rec
	}
	return err
}

// scanRecord reads the columns of the statements records, told and list, and what these have before them. The
// latter two have a row also where there is no record.
func scanRecord(r *sql.Rows, also ...any) (rec lease.Record, there bool, err error) {
	var key, owner, holder, wanted, broken []byte
	var token, ttl, acquired, renewed, expires, busyUntil, brokenAt sql.NullInt64
	if err = r.Scan(append(also, &key, &owner, &token, &holder, &ttl, &acquired, &renewed, &expires, &busyUntil,
		&wanted, &broken, &brokenAt)...); err != nil || key == nil {
		return rec, false, err
	}
	rec = recordOf(key, owner, holder, wanted, broken, brokenAt.Int64)
	rec.Token, rec.TTL = lease.Token(token.Int64), span(ttl.Int64)
	rec.Acquired, rec.Renewed, rec.Expires = instant(acquired.Int64), instant(renewed.Int64), instant(expires.Int64)
	rec.BusyUntil = instant(busyUntil.Int64)
	return rec, true, nil
}

func recordOf(key, owner, holder, wanted, broken []byte, brokenAt int64) lease.Record {
	rec := lease.Record{Key: lease.Key(key), Owner: parseNonce(owner), Holder: holderOf(holder)}
	if len(wanted) > 0 {
		by := holderOf(wanted)
		rec.Wanted = &by
	}
	if brokenAt != 0 {
		rec.Broken = new(lease.Broken)
		fromJSON(broken, rec.Broken)
		rec.Broken.At = instant(brokenAt)
	}
	return rec
}

// holds says whether rec is, or was last, the hold ref, and not released.
func holds(rec lease.Record, ref lease.Ref) bool { return rec.Ref() == ref && !rec.Expires.IsZero() }

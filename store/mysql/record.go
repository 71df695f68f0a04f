package mysql

import (
	"database/sql"

	"github.com/dibs-run/dibs/lease"
)

// records collects lease records by key.
type records map[lease.Key]lease.Record

func (m records) read(r *sql.Rows) error {
	rec, err := scanRecord(r)
	m[rec.Key] = rec
	return err
}

// scanRecord reads the columns of the statements records and list.
func scanRecord(r *sql.Rows) (rec lease.Record, err error) {
	var key, owner, holder, wanted, broken []byte
	var ttl, acquired, renewed, expires, busyUntil, brokenAt int64
	if err = r.Scan(&key, &owner, &rec.Token, &holder, &ttl, &acquired, &renewed, &expires, &busyUntil,
		&wanted, &broken, &brokenAt); err != nil {
		return rec, err
	}
	rec.Key, rec.TTL = lease.Key(key), span(ttl)
	rec.Acquired, rec.Renewed, rec.Expires = instant(acquired), instant(renewed), instant(expires)
	rec.BusyUntil = instant(busyUntil)
	if rec.Owner, err = parseNonce(owner); err != nil {
		return rec, err
	}
	if err = fromJSON(holder, &rec.Holder); err != nil {
		return rec, err
	}
	if len(wanted) > 0 {
		rec.Wanted = new(lease.Holder)
		if err = fromJSON(wanted, rec.Wanted); err != nil {
			return rec, err
		}
	}
	if brokenAt != 0 {
		rec.Broken = new(lease.Broken)
		err = fromJSON(broken, rec.Broken)
		rec.Broken.At = instant(brokenAt)
	}
	return rec, err
}

// holds says whether rec is, or was last, the hold ref, and not released.
func holds(rec lease.Record, ref lease.Ref) bool { return rec.Ref() == ref && !rec.Expires.IsZero() }

package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
)

// recordRow scans the columns of a record, which are null where there is none.
type recordRow struct {
	key                                               []byte
	owner, holder, wanted, broken                     *string
	token, ttl, acquired, renewed, expires, busyUntil *int64
}

// scan reads a row: the columns of first, then a record's, then any that say nothing.
func (r *recordRow) scan(rows pgx.Rows, first ...any) (lease.Record, bool, error) {
	targets := append(first, &r.key, &r.owner, &r.token, &r.holder, &r.ttl, &r.acquired, &r.renewed, &r.expires,
		&r.busyUntil, &r.wanted, &r.broken)
	for len(targets) < len(rows.FieldDescriptions()) {
		targets = append(targets, nil)
	}
	if err := rows.Scan(targets...); err != nil || r.owner == nil {
		return lease.Record{}, false, err
	}
	return r.record(), true, nil
}

func (r *recordRow) record() lease.Record {
	v := lease.Record{Key: lease.Key(r.key), Token: lease.Token(*r.token), TTL: time.Duration(*r.ttl) * time.Microsecond,
		Acquired: instant(*r.acquired), Renewed: instant(*r.renewed), Expires: instant(*r.expires), BusyUntil: instant(*r.busyUntil)}
	v.Owner, v.Holder = nonce(*r.owner), holderOf(*r.holder)
	fromJSON(*r.wanted, &v.Wanted)
	fromJSON(*r.broken, &v.Broken)
	return v
}

// snapshot collects the answer to an operation on leases: the clock, the records of the keys, and for which of them
// it was done.
type snapshot struct {
	now     time.Time
	records map[lease.Key]lease.Record
	done    map[lease.Key]bool
	order   []lease.Key
}

func newSnapshot() *snapshot {
	return &snapshot{records: map[lease.Key]lease.Record{}, done: map[lease.Key]bool{}}
}

func (s *snapshot) add(r lease.Record, done bool) {
	s.records[r.Key] = r
	s.done[r.Key] = done
	s.order = append(s.order, r.Key)
}

// row takes in the clock, whether it was done, and a record.
func (s *snapshot) row(rows pgx.Rows) error {
	var now int64
	var done *bool
	r, found, err := new(recordRow).scan(rows, &now, &done)
	if found {
		s.add(r, *done)
	}
	s.now = instant(now)
	return err
}

// listing takes in a page of a list.
type listing struct {
	*snapshot
	full bool
	last []byte
}

func (p *listing) row(rows pgx.Rows) error {
	var now int64
	r, found, err := new(recordRow).scan(rows, &now, &p.full, &p.last)
	if found {
		p.add(r, true)
	}
	p.now = instant(now)
	return err
}

// next is the first key of the page after it, nil for none.
func (p *listing) next() []byte {
	if !p.full {
		return nil
	}
	return append(p.last, 0)
}

// freed takes in the clock, a key, whether it was freed, and the record of one that was not.
func (s *snapshot) freed(rows pgx.Rows) error {
	var (
		now  int64
		done *bool
		key  []byte
	)
	r, _, err := new(recordRow).scan(rows, &now, &done, &key)
	s.now = instant(now)
	if done != nil {
		r.Key = lease.Key(key)
		s.add(r, *done)
	}
	return err
}

// fromJSON reads what is for people and decides nothing: what cannot be read is left out, and reported as false. So no
// row keeps others from being read.
func fromJSON(text string, into any) bool {
	return text == "" || json.Unmarshal([]byte(text), into) == nil
}

// holderOf reads the holder of a lease or a tick.
func holderOf(text string) (h lease.Holder) {
	if !fromJSON(text, &h) {
		return lease.Holder{Host: damaged}
	}
	return h
}

// damaged is shown instead of what cannot be read.
const damaged = "(damaged)"

func holderJSON(h lease.Holder) string { return string(h.AppendJSON(nil)) }

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // holders, breaks and attempts are plain structs
	}
	return string(b)
}

// owner is a nonce as the store keeps it: empty for none.
func owner(n lease.Nonce) string {
	if n == (lease.Nonce{}) {
		return ""
	}
	return n.String()
}

//go:build linux

package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// An instant is one moment on both clocks, in µs. Expiry is decided on boot (rule L12); people and requests use wall.
// The wall clock is the machine's own, and not the clock seam's: on one host the store's clock is the host's,
// whatever offset a test gives to a process.
type instant struct{ wall, boot int64 }

func instantNow() instant {
	return instant{wall: time.Now().UnixMicro(), boot: clock.System.Boot().Microseconds()}
}

func (n instant) time() time.Time { return time.UnixMicro(n.wall).UTC() }

// past says whether a bound in store time, none if zero, has passed.
func (n instant) past(bound time.Time) bool { return !bound.IsZero() && n.wall > bound.UnixMicro() }

// A record is the content of a lock file: one line of JSON and one with its checksum. Bytes behind these are left
// from a longer one. Instants are µs of CLOCK_BOOTTIME in boot Boot, 0 for none; adding Line gives wall time, as it
// was when the record was made.
type record struct {
	Key      lease.Key     `json:"key"`
	Owner    lease.Nonce   `json:"owner"`
	Token    lease.Token   `json:"token"`
	Boot     string        `json:"boot"`
	Line     int64         `json:"line"`
	TTL      int64         `json:"ttl"`
	Acquired int64         `json:"acquired"`
	Renewed  int64         `json:"renewed"`
	Expires  int64         `json:"expires"` // 0 once released
	Busy     int64         `json:"busy,omitempty"`
	Holder   lease.Holder  `json:"holder"`
	Broken   *lease.Broken `json:"broken,omitempty"`
	// Run is a run without a tick that was started under this hold and not yet closed. If the
	// hold dies, this is all that is known of it.
	Run *run.Record `json:"run,omitempty"`
}

func (r *record) ref() lease.Ref { return lease.Ref{Key: r.Key, Owner: r.Owner, Token: r.Token} }

func (r *record) released() bool { return r.Expires == 0 }

// lapsed says whether the hold's time is up; that of another boot's hold is.
func (r *record) lapsed(boot string, now instant) bool {
	return r.Boot != boot || now.boot >= r.Expires
}

// line is the difference of the clocks by which the record's instants are told: the recorded
// one, so that a record reads the same each time, unless the wall clock has since been stepped.
func (r *record) line(boot string, now instant) int64 {
	if r.Boot != boot {
		return r.Line
	}
	return now.line(r.Line)
}

func (n instant) line(recorded int64) int64 {
	line := n.wall - n.boot
	if d := line - recorded; -second < d && d < second {
		return recorded
	}
	return line
}

const second = int64(time.Second / time.Microsecond)

// busy says whether a request that nobody can stop may still be at work (rule L8). It may
// be at work elsewhere, so a reboot of this host does not end it.
func (r *record) busy(boot string, now instant) bool {
	return r.Busy != 0 && !r.released() && r.Busy+r.line(boot, now) > now.wall
}

// lookAgain is how far ahead the expiry is shown of a hold that has lapsed by its record while the kernel still holds
// its lock: nobody can be granted the key, and nobody knows for how long.
const lookAgain = 100 * time.Millisecond

// view is the record as the contract shows it. held says what the kernel knows: a record that
// looks live without a lock is a dead holder's, and one that looks free with a lock is not free.
func (r *record) view(boot string, held bool, now instant) lease.Record {
	line := r.line(boot, now)
	at := func(us int64) time.Time {
		if us == 0 {
			return time.Time{}
		}
		return time.UnixMicro(us + line).UTC()
	}
	v := lease.Record{
		Key: r.Key, Owner: r.Owner, Token: r.Token, Holder: r.Holder,
		TTL:      time.Duration(r.TTL) * time.Microsecond,
		Acquired: at(r.Acquired), Renewed: at(r.Renewed), Expires: at(r.Expires),
		BusyUntil: at(r.Busy), Broken: r.Broken,
	}
	over := r.released() || r.lapsed(boot, now)
	switch {
	case held && over:
		v.Expires = now.time().Add(lookAgain)
	case !held && !r.released() && v.Live(now.time()) && !r.Holder.Apart:
		v.Expires = now.time()
	}
	return v
}

// encode is the content of a lock file: never more than readers take.
func (r *record) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if b = fmt.Appendf(b, "\n%08x\n", crc32.ChecksumIEEE(b)); len(b) > mostRecord {
		return nil, fmt.Errorf("the record would have %d bytes, and at most %d are read", len(b), mostRecord)
	}
	return b, nil
}

// decode reads what encode wrote. An empty file is a record of nothing. Content that does not agree with its checksum
// is errDamaged.
func decode(b []byte) (record, error) {
	var r record
	if len(b) == 0 {
		return r, nil
	}
	text, rest, _ := bytes.Cut(b, []byte{'\n'})
	sum, _, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) {
		return r, errDamaged
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, nil
}

// readRecord reads a record. One that is damaged, as after a loss of power, or larger than any that is written, says
// nothing: its key can be granted again once its lock is free.
func readRecord(fd int, name string) (record, error) {
	r, err := readSound(fd, name)
	if errors.Is(err, errDamaged) {
		return record{}, nil
	}
	return r, err
}

// readSound reads a record that another process may be rewriting: a checksum that does not match is given a little
// time. name is the file's name, which is its key's.
func readSound(fd int, name string) (record, error) {
	for try := 0; ; try++ {
		b, err := preadAll(fd)
		if err != nil {
			return record{}, err
		}
		r, err := decode(b)
		switch {
		case err == nil && r.Key != "" && lockFile(r.Key) != name:
			return record{}, fmt.Errorf("%w: it speaks of another key, about which it has no say", errDamaged)
		case err == nil || try == 20:
			return r, err
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// writeRecord rewrites the file in place. Nothing is synced: the kernel keeps the bytes when
// processes die, and when the machine does, every hold dies with it.
func writeRecord(fd int, r *record) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := pwriteAll(fd, b); err != nil {
		return err
	}
	if st.Size > int64(len(b)) {
		return unix.Ftruncate(fd, int64(len(b)))
	}
	return nil
}

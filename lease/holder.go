package lease

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Token is a fencing token: a number that grows with each grant of a key, for ever. Pass it to everything that
// the work writes to, and refuse writes with a smaller token than one already seen. It stays below 2^53, so that
// every language can represent it exactly (rule L10).
type Token int64

// A Nonce is 128 random bits that identify one hold of a lease, and so its holder.
type Nonce [16]byte

// NewNonce returns a new random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // crypto/rand.Read never fails
	return n
}

// ParseNonce parses the 32 hexadecimal digits that String returns.
func ParseNonce(s string) (Nonce, error) {
	var n Nonce
	if b, err := hex.DecodeString(s); err != nil || len(b) != len(n) {
		return n, fmt.Errorf("lease: %q is not a nonce (32 hexadecimal digits)", s)
	} else {
		copy(n[:], b)
	}
	return n, nil
}

func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

// MarshalText and UnmarshalText make a Nonce a JSON string.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (n *Nonce) UnmarshalText(b []byte) (err error) { *n, err = ParseNonce(string(b)); return err }

// A Ref identifies one hold of one lease. A process that has the Ref can renew and release the hold, and write
// under it.
type Ref struct {
	Key   Key   `json:"key"`
	Owner Nonce `json:"owner"`
	Token Token `json:"token"`
}

// A Holder describes the process that holds a lease: for people, and for instant reclaim on the same host (rule
// L6). Stores keep it with the record, as JSON. It never decides who owns the lease: the Ref does.
type Holder struct {
	ID      Nonce  `json:"id"`
	Host    string `json:"host"`
	HostID  string `json:"host_id,omitempty"` // the embedded directory's id (rule H1), where there is one
	BootID  string `json:"boot_id,omitempty"`
	PIDNS   string `json:"pid_ns,omitempty"` // the pid namespace's inode
	PID     int    `json:"pid"`
	Start   uint64 `json:"start,omitempty"` // the process's start, in clock ticks since boot
	RunID   string `json:"run_id,omitempty"`
	Command string `json:"command,omitempty"`
	Cgroup  string `json:"cgroup,omitempty"` // the run's own cgroup, where it has one
	// Apart says that the work does not share a lock of the store's, such as a command of another user. A free lock
	// is then no proof that the work is gone, and rule L6 decides.
	Apart bool `json:"apart,omitempty"`
	// Replaceable says that the holder's policy is Replace: a newcomer may ask for its lease (rule T7).
	Replaceable bool `json:"replaceable,omitempty"`
}

// AppendJSON appends the JSON of h to b and returns the result. The JSON is that of encoding/json, but takes a
// fraction of the time: a store writes it with each grant.
func (h Holder) AppendJSON(b []byte) []byte {
	b = hex.AppendEncode(append(b, `{"id":"`...), h.ID[:])
	b = appendText(append(b, `","host":`...), h.Host)
	text := func(name, value string) {
		if value != "" {
			b = appendText(append(b, name...), value)
		}
	}
	text(`,"host_id":`, h.HostID)
	text(`,"boot_id":`, h.BootID)
	text(`,"pid_ns":`, h.PIDNS)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(h.PID), 10)
	if h.Start != 0 {
		b = strconv.AppendUint(append(b, `,"start":`...), h.Start, 10)
	}
	text(`,"run_id":`, h.RunID)
	text(`,"command":`, h.Command)
	text(`,"cgroup":`, h.Cgroup)
	if h.Apart {
		b = append(b, `,"apart":true`...)
	}
	if h.Replaceable {
		b = append(b, `,"replaceable":true`...)
	}
	return append(b, '}')
}

// appendText appends a JSON string. What has to be escaped is left to encoding/json.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, _ := json.Marshal(s) // a string always has one
			return append(b, escaped...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// String describes the holder in one line: host, process and run. The writer of a record can write anything, so
// characters that do not print, such as line ends, are shown as U+FFFD.
func (h Holder) String() string {
	s := fmt.Sprintf("%s pid %d", h.Host, h.PID)
	if h.RunID != "" {
		s += " run " + h.RunID
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// A Record is what a store keeps for a key. It stays after a release, so that the token never decreases. All
// instants are in the store's time, in UTC, with microseconds.
type Record struct {
	Key    Key
	Owner  Nonce
	Token  Token
	Holder Holder
	TTL    time.Duration
	// Acquired is when this holder got the lease, and Renewed when it last renewed it.
	Acquired, Renewed time.Time
	// Expires is when the hold lapses; zero after a release.
	Expires time.Time
	// BusyUntil, if not zero, keeps a lapsed lease from being granted while a request that nobody can stop may
	// still be at work (rule L8).
	BusyUntil time.Time
	// Wanted is the newcomer that asks for the lease with Replace (rule T7); nil: none does.
	Wanted *Holder
	// Broken says who broke the lease (rule L5); nil: nobody did.
	Broken *Broken
}

// Broken says who broke a lease and why.
type Broken struct {
	By  string    `json:"by"`
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at"`
	Now bool      `json:"now,omitempty"` // freed at once, without waiting for the holder: unsafe
}

// Ref returns the hold that the record describes.
func (r Record) Ref() Ref { return Ref{Key: r.Key, Owner: r.Owner, Token: r.Token} }

// Live reports whether the lease is held at now, an instant in the store's time.
func (r Record) Live(now time.Time) bool { return r.Expires.After(now) }

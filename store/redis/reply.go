package redis

import (
	"strconv"
	"time"
)

// A reply is what a script answered: integers, strings, nil and lists of them. Its accessors read an absent or empty
// value as zero, as scripts read a field that was never written.
type reply []any

func (r reply) list(i int) reply {
	if i < len(r) {
		if l, ok := r[i].([]any); ok {
			return l
		}
	}
	return nil
}

func (r reply) text(i int) string {
	if i < len(r) {
		if s, ok := r[i].(string); ok {
			return s
		}
	}
	return ""
}

func (r reply) int(i int) int64 {
	if i >= len(r) {
		return 0
	}
	switch v := r[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func (r reply) time(i int) time.Time { return instant(r.int(i)) }

// micros and instant are the form of all instants in the store: µs since the epoch, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// flag is how a boolean travels to a script.
func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}

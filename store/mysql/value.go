package mysql

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// How values look in the tables.

const never = math.MaxInt64

// micros is an instant, or 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// bound is a not_after: without one, a request is never late.
func bound(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMicro()
}

// instant is the reverse of micros.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func span(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// text is s as a column of characters takes it: an error message may hold any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// nonce is the form of an owner; the zero nonce, which holds nothing, is empty.
func nonce(n lease.Nonce) []byte {
	if n == (lease.Nonce{}) {
		return []byte{}
	}
	return []byte(n.String())
}

// parseNonce is the reverse; what is none holds nothing.
func parseNonce(b []byte) lease.Nonce {
	n, _ := lease.ParseNonce(string(b))
	return n
}

// toJSON is v as a column keeps it.
func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mysql: %T does not marshal: %v", v, err)) // our own types do
	}
	return b
}

// fromJSON reads such a column into v. It is for people and decides nothing: what cannot be read is left out, and
// reported as false. So no row keeps others from being read.
func fromJSON(b []byte, v any) bool { return len(b) == 0 || json.Unmarshal(b, v) == nil }

// holderOf reads the holder of a lease or a tick.
func holderOf(b []byte) (h lease.Holder) {
	if !fromJSON(b, &h) {
		return lease.Holder{Host: damaged}
	}
	return h
}

// damaged is shown instead of what cannot be read.
const damaged = "(damaged)"

// truth is a column that is 0 or 1. Any other number is as good as 1: it keeps nobody from reading the row.
type truth bool

// Scan is sql.Scanner's.
func (b *truth) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*b = v != 0
	case []byte:
		*b = string(v) != "0"
	}
	return nil
}

// keys are lease keys as an argument, all of them bytes.
func keys[T any](items []T, key func(T) lease.Key) list {
	l := make(list, len(items))
	for i, item := range items {
		l[i] = []byte(key(item))
	}
	return l
}

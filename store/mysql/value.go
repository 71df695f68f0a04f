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

func parseNonce(b []byte) (lease.Nonce, error) {
	if len(b) == 0 {
		return lease.Nonce{}, nil
	}
	return lease.ParseNonce(string(b))
}

// toJSON is v as a column keeps it.
func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mysql: %T does not marshal: %v", v, err)) // our own types do
	}
	return b
}

// fromJSON reads such a column into v; an empty one leaves it alone.
func fromJSON(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("a dibs_ table holds JSON that is not ours: %w", err)
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

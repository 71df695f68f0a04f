package lease

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/keys"
)

// MaxKey is the maximum length of a key: 512 bytes (rule L13).
const MaxKey = keys.Max

// A Key names the thing that is protected. Two keys are the same only if their bytes are: they are never normalised,
// folded or trimmed.
type Key string

// ParseKey checks rule L13: 1 to 512 bytes of valid UTF-8 without control characters.
func ParseKey(s string) (Key, error) {
	if problem := keys.Problem(s); problem != "" {
		return "", fmt.Errorf("%w: %s", ErrBadKey, problem)
	}
	return Key(s), nil
}

// ParseInternal is the reverse of String for dibs's own keys.
func ParseInternal(s string) (Key, error) {
	at := strings.LastIndex(s, "/")
	if at > 0 && slices.Contains(parts, s[at+1:]) {
		base, err := ParseKey(s[:at])
		return base + mark + Key(s[at+1:]), err
	}
	if nonce, ok := strings.CutPrefix(s, "once/"); ok {
		if n, err := ParseNonce(nonce); err == nil {
			return Key(oncePrefix + n.String()), nil
		}
	}
	return "", fmt.Errorf("%w: %q is not the name of one of dibs's own leases: once/NONCE, or KEY/ and one of %s", ErrBadKey, keys.Head(s), strings.Join(parts, ", "))
}

// mark separates the parts of the keys that dibs itself uses. It is a control character, which a user's key cannot
// contain, so the two can never collide.
const mark = "\x1f"

// parts are the suffixes of dibs's own leases that belong to another key.
var parts = []string{"next", "gate", "catch-up", "mirror", "back-fill", "sweep"}

// Next returns the key of k's waiting place, which is itself a lease (rule T7).
func (k Key) Next() Key { return k + mark + "next" }

// Waits reports whether k is a waiting place, and of which key.
func (k Key) Waits() (Key, bool) {
	base, ok := strings.CutSuffix(string(k), mark+"next")
	return Key(base), ok
}

const oncePrefix = "once" + mark

// OnceKey returns a key that is used once and never again. A process keeps its claims under the lease of such a key
// (rule T1), and so does a run that excludes nobody.
func OnceKey() Key { return Key(oncePrefix + NewNonce().String()) }

// Once reports whether k came from OnceKey. No later hold needs its token, so a store deletes its record on release.
func (k Key) Once() bool { return strings.HasPrefix(string(k), oncePrefix) }

// Gate returns the key of the lease under which the last start of k is looked up (rule T10).
func (k Key) Gate() Key { return k + mark + "gate" }

// CatchUp returns the key of the lease under which one server at a time runs the missed ticks of the job k (rule
// T8).
func (k Key) CatchUp() Key { return k + mark + "catch-up" }

// Mirror returns the key of the lease under which one process at a time copies the records of a host's directory to
// the store k (rule H1).
func (k Key) Mirror() Key { return k + mark + "mirror" }

// Backfill returns the key of the lease under which one back-fill at a time runs ticks of the job k once more,
// beside their outcomes (rule T12).
func (k Key) Backfill() Key { return k + mark + "back-fill" }

// Sweep returns the key of the lease under which one of the servers k, which all serve the same, takes over what
// dead servers left.
func (k Key) Sweep() Key { return k + mark + "sweep" }

// Internal reports whether k is one of dibs's own keys rather than a user's.
func (k Key) Internal() bool { return strings.Contains(string(k), mark) }

// String returns the key as people write it.
func (k Key) String() string { return strings.ReplaceAll(string(k), mark, "/") }

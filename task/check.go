package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/keys"
)

// A SpecError says what is wrong in a Spec, and what is allowed.
type SpecError struct{ Field, Problem string }

func (e *SpecError) Error() string { return fmt.Sprintf("task: %s: %s", e.Field, e.Problem) }

// Check fills in the defaults of s and refuses what a store must not be given, with a *SpecError.
func (s *Spec) Check() error {
	if s.Queue == "" {
		s.Queue = DefaultQueue
	}
	if len(s.Args) == 0 {
		s.Args = json.RawMessage("null")
	}
	for _, c := range []func() error{s.checkNames, s.checkArgs, s.checkTimes, s.checkOptions, s.checkUnique, s.checkLimit} {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) checkNames() error {
	if s.Kind == "" {
		return &SpecError{"kind", "it is empty; name the handler that does it"}
	}
	if err := CheckName("queue", s.Queue); err != nil {
		return err
	}
	return CheckName("kind", s.Kind)
}

// CheckName refuses a name of a queue, a kind or a tag that a store must not be given, with a *SpecError for the
// field. It accepts an empty name: the caller decides what that means.
func CheckName(field, name string) error {
	switch {
	case len(name) > MaxName:
		return &SpecError{field, fmt.Sprintf("it has %d bytes; at most %d fit", len(name), MaxName)}
	case !utf8.ValidString(name) || strings.IndexFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) >= 0:
		return &SpecError{field, fmt.Sprintf("%q has a blank or a control character, or is not UTF-8", name)}
	}
	return nil
}

func (s *Spec) checkArgs() error {
	switch {
	case s.broken != nil:
		return &SpecError{"args", s.broken.Error()}
	case len(s.Args) > MaxArgs:
		return &SpecError{"args", fmt.Sprintf("%d bytes are too many: want at most %d; store large data elsewhere, and pass its location", len(s.Args), MaxArgs)}
	case !json.Valid(s.Args):
		return &SpecError{"args", "not valid JSON: " + json.Unmarshal(s.Args, new(any)).Error()}
	case !utf8.Valid(s.Args) || escapesNUL(s.Args):
		return &SpecError{"args", "want UTF-8 without the character U+0000, which some stores cannot keep"}
	}
	return nil
}

// escapesNUL reports whether a string in valid JSON has the character U+0000, as an escape. The text \\u0000, in which
// the backslash is escaped, is six other characters.
func escapesNUL(b []byte) bool {
	for i := bytes.IndexByte(b, '\\'); i >= 0 && i+1 < len(b); {
		if bytes.HasPrefix(b[i+1:], []byte("u0000")) {
			return true
		}
		next := bytes.IndexByte(b[i+2:], '\\') // behind what this one escapes
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

func (s *Spec) checkTimes() error {
	due := s.RunAt
	if !due.IsZero() {
		due = due.Add(s.Delay)
	}
	for _, c := range []struct {
		field string
		at    time.Time
	}{{"run_at", s.RunAt}, {"delay", due}, {"expires_at", s.ExpiresAt}, {"retry_until", s.RetryUntil}} {
		if err := CheckInstant(c.field, c.at); err != nil {
			return err
		}
	}
	switch {
	case s.Delay < 0:
		return &SpecError{"delay", "it is negative"}
	case s.Timeout < 0:
		return &SpecError{"timeout", "it is negative"}
	case !s.ExpiresAt.IsZero() && !s.RunAt.IsZero() && !s.ExpiresAt.After(due):
		return &SpecError{"expires_at", "it is not after run_at, so the task could never run"}
	}
	return nil
}

// CheckInstant refuses an instant that JSON, or some store, cannot hold, with a *SpecError for the field: one such
// task would make every list of tasks unreadable. It accepts the zero instant.
func CheckInstant(field string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if year := t.UTC().Year(); year < 1970 || year > 9999 {
		return &SpecError{field, fmt.Sprintf("it is in the year %d; it must be from 1970 to 9999", year)}
	}
	return nil
}

func (b *Backoff) check() error {
	if b == nil {
		return nil
	}
	switch {
	case len(b.List) > 100:
		return &SpecError{"backoff.list", fmt.Sprintf("it has %d pauses; want at most 100, the last one repeats", len(b.List))}
	case b.Base < 0 || b.Cap < 0 || slices.ContainsFunc(b.List, func(d time.Duration) bool { return d < 0 }):
		return &SpecError{"backoff", "a pause is negative"}
	case b.Factor != 0 && !(b.Factor >= 1 && b.Factor <= 1000): // which NaN is not either
		return &SpecError{"backoff.factor", fmt.Sprintf("%g is not from 1 to 1000 (0 is 2)", b.Factor)}
	}
	return nil
}

func (s *Spec) checkOptions() error {
	if err := s.Backoff.check(); err != nil {
		return err
	}
	if s.Priority < MinPriority || s.Priority > MaxPriority {
		return &SpecError{"priority", fmt.Sprintf("%d is not from %d to %d; a higher one is fetched sooner", s.Priority, MinPriority, MaxPriority)}
	}
	for _, c := range [...]struct {
		field string
		n     int
	}{{"max_attempts", s.MaxAttempts}, {"max_crashes", s.MaxCrashes}, {"max_snoozes", s.MaxSnoozes}} {
		if c.n < 0 || c.n > 1_000_000 {
			return &SpecError{c.field, fmt.Sprintf("%d is not from 1 to 1000000 (0 is the default)", c.n)}
		}
	}
	if len(s.Tags) > MaxTags {
		return &SpecError{"tags", fmt.Sprintf("there are %d; at most %d", len(s.Tags), MaxTags)}
	}
	for _, t := range s.Tags {
		if t == "" {
			return &SpecError{"tags", "one is empty"}
		}
		if err := CheckName("tags", t); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) checkUnique() error {
	u := s.Unique
	if u == nil {
		return nil
	}
	if err := checkKey("unique.key", u.Key); err != nil {
		return err
	}
	switch {
	case u.Until != "" && u.Until != UntilFinished && u.Until != UntilStarted:
		return &SpecError{"unique.until", fmt.Sprintf("%q is neither finished nor started", u.Until)}
	case u.Again != "" && u.Again != Refuse && u.Again != Replace && u.Again != Debounce:
		return &SpecError{"unique.again", fmt.Sprintf("%q is none of refuse, replace, debounce", u.Again)}
	case (u.Again == Replace || u.Again == Debounce) && u.Until != UntilStarted:
		return &SpecError{"unique.again", string(u.Again) + " applies to a waiting task, so it needs until: started; after the start, the next one is a separate task"}
	case u.Again == Debounce && s.Delay <= 0:
		return &SpecError{"delay", "debounce needs it: each further request postpones the task by this much"}
	case u.Window < 0 || u.MaxWait < 0:
		return &SpecError{"unique", "a duration is negative"}
	case u.Window > 0 && u.Until == UntilStarted:
		return &SpecError{"unique.window", "it starts at success, so it needs until: finished"}
	}
	return nil
}

func (s *Spec) checkLimit() error {
	l := s.Limit
	if l == nil {
		return nil
	}
	if err := checkKey("limit.key", l.Key); err != nil {
		return err
	}
	switch {
	case l.Max < 0 || l.Max > 1_000_000:
		return &SpecError{"limit.max", fmt.Sprintf("%d is not from 1 to 1000000 (0 is 1)", l.Max)}
	case l.OnContention != "" && l.OnContention != Wait && l.OnContention != Discard && l.OnContention != Displace:
		return &SpecError{"limit.on_contention", fmt.Sprintf("%q is none of wait, discard, replace", l.OnContention)}
	}
	return nil
}

func checkKey(field, key string) error {
	if problem := keys.Problem(key); problem != "" {
		return &SpecError{field, "bad key: " + problem}
	}
	return nil
}

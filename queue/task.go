package queue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// An ID names a task within its namespace. IDs grow in the order in which a store takes tasks in,
// and stay below 2^53, so that every language can hold them.
type ID int64

// Bounds of what a task may say. Everything above them is refused with a *SpecError.
const (
	MaxArgs = 256 << 10 // bytes of arguments
	MaxTags = 16
	MaxName = 128 // bytes of a queue's, a kind's, or a tag's name
	// MaxPriority and MinPriority bound Spec.Priority.
	MaxPriority, MinPriority = 9, -9
)

// Defaults of a Spec.
const (
	DefaultQueue       = "default"
	DefaultMaxAttempts = 25
	DefaultMaxCrashes  = 3
	DefaultMaxSnoozes  = 1000
)

// A Spec is what somebody asks to be done: one task, before it is taken in.
type Spec struct {
	// Queue is where it waits. Default "default". Kind says which handler does it; required.
	Queue, Kind string
	// Args is JSON, at most MaxArgs bytes. Default null.
	Args json.RawMessage
	// Priority is from -9 to 9; a higher one is fetched sooner. Default 0.
	Priority int
	// RunAt is the store's instant before which it is not fetched; zero: at once. Delay is
	// added to the store's time, or to RunAt where that is set.
	RunAt time.Time
	Delay time.Duration
	// ExpiresAt ends its waiting as discarded, reason "expired" (rule Q6); zero: it waits for ever.
	ExpiresAt time.Time
	// Unique says that there may be only one such task; nil: there may be any number.
	Unique *Unique
	// Limit says with how many others it may run at the same time; nil: with any.
	Limit *Limit
	Options

	broken error // why SpecOf could not write the arguments
}

// SpecOf is a task of kind whose arguments are args, as JSON; set what else it should say. Arguments that JSON cannot
// hold are reported by Check, and so by whoever enqueues it.
func SpecOf(kind string, args any) Spec {
	b, err := json.Marshal(args)
	return Spec{Kind: kind, Args: b, broken: err}
}

// Options are the part of a Spec that workers read and stores only keep.
type Options struct {
	// MaxAttempts bounds how often it is tried. Default 25.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// RetryUntil is the store's instant after which no attempt begins any more; zero: none.
	RetryUntil time.Time `json:"retry_until,omitzero"`
	// Timeout bounds each attempt. Default none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Backoff is the pause before the next attempt. Default: that of its kind at the worker.
	Backoff *Backoff `json:"backoff,omitempty"`
	// MaxCrashes bounds how often it may take a worker down with it, once it is suspect (rule Q4). The crash
	// that would end it is one that it has alone: its worker lets all others end first. Default 3.
	MaxCrashes int `json:"max_crashes,omitempty"`
	// MaxSnoozes bounds how often it may ask to be tried again without using an attempt (rule Q6).
	// Default 1000.
	MaxSnoozes int `json:"max_snoozes,omitempty"`
	// Tags are words to find it by.
	Tags []string `json:"tags,omitempty"`
}

// Until is how long a unique key is held.
type Until string

// The scopes of uniqueness.
const (
	// UntilFinished holds the key across retries, until a final state. The default.
	UntilFinished Until = "finished"
	// UntilStarted frees it at the first start; retries do not take it again (rule Q1).
	UntilStarted Until = "started"
)

// Again is what becomes of the second task of a unique key.
type Again string

// What becomes of the second task.
const (
	// Refuse answers Duplicate, with the task that is there. The default.
	Refuse Again = "refuse"
	// Replace gives the waiting task the new arguments, priority, instant and tags, and a fresh budget of
	// attempts; its id and its place stay. It needs UntilStarted: where the task has started, the
	// second one is a task of its own (rule Q3). So it is where a worker has fetched the task, and with
	// it the old arguments: the second one then holds the key.
	Replace Again = "replace"
	// Debounce is Replace that also puts the waiting task off, to Delay from now, but never
	// beyond MaxWait from when it was first enqueued.
	Debounce Again = "debounce"
)

// Unique says that only one task of a key may be there. The key is always explicit.
type Unique struct {
	// Key is 1 to 512 bytes. Its identity is (namespace, kind, key), or (namespace, key) where it
	// is Shared; never the queue (rule Q1).
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Until is UntilFinished where empty.
	Until Until `json:"until,omitempty"`
	// Window holds the key for so long after the task succeeded. Default 0. With UntilFinished only.
	Window time.Duration `json:"window,omitempty"`
	// Again is Refuse where empty. MaxWait bounds Debounce. Default 10 times Delay.
	Again   Again         `json:"again,omitempty"`
	MaxWait time.Duration `json:"max_wait,omitempty"`
}

// Contention is what becomes of a task whose limit is reached.
type Contention string

// What becomes of a task whose limit is reached.
const (
	// Wait keeps its place until a slot frees. The default.
	Wait Contention = "wait"
	// Discard ends it as discarded, reason "overlap", when it would have been fetched.
	Discard Contention = "discard"
	// Displace asks the running tasks that declared Displace themselves to stop (canceled, reason
	// "replaced"), discards older ones that wait for a slot and declared it (reason "superseded"), and runs
	// when there is a slot. It does so when a fetch meets it and finds the limit reached.
	Displace Contention = "replace"
)

// Limit bounds how many tasks of a key run at the same time. A slot is taken when a task is
// fetched, and is held only while it runs (rule Q5).
type Limit struct {
	// Key is 1 to 512 bytes; its identity is (namespace, kind, key), or (namespace, key) where Shared.
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Max is how many may run. Default 1. It belongs to the key: the last declaration wins.
	Max int `json:"max,omitempty"`
	// OnContention is Wait where empty.
	OnContention Contention `json:"on_contention,omitempty"`
}

// A Hash is the identity of a unique key or of a limit within its namespace.
type Hash [16]byte

// Hash is the identity of the key for a task of kind.
func (u *Unique) Hash(kind string) Hash { return hash("unique", kind, u.Shared, u.Key) }

// Hash is the identity of the key for a task of kind.
func (l *Limit) Hash(kind string) Hash { return hash("limit", kind, l.Shared, l.Key) }

// hash writes every part with its length before it, so that no two lists of parts can meet.
func hash(what, kind string, shared bool, key string) (h Hash) {
	if shared {
		kind = ""
	}
	b := make([]byte, 0, 128) // most fit without an allocation
	for _, part := range []string{what, kind, key} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// Slots is the limit that l declares.
func (l *Limit) Slots() int { return max(l.Max, 1) }

// A Task is a task as a store keeps it. Instants are the store's own, UTC, to the microsecond.
type Task struct {
	ID ID
	Spec
	State State
	// Front says that an operator moved it before all others of its queue.
	Front bool
	// Enqueued is when it was taken in, Started when it was last fetched, Ended when it got its final state.
	Enqueued, Started, Ended time.Time
	// Attempts counts those that were made; Granted is what it was at the last manual retry: only
	// what came since is charged to it (rule Q7). Crashes and Snoozes have budgets of their own, and
	// begin anew with a manual retry.
	Attempts, Granted, Crashes, Snoozes int
	// Suspect says that a worker died, or left, while it had the task (rule Q4). It stays so.
	Suspect bool
	// Token is that of its last fetch; Worker who has it, or had it last.
	Token  lease.Token
	Worker Process
	// Reason says why it ended as it did; a closed set for discarded and canceled.
	Reason string
	// Stop is why it is asked to stop while it runs; empty where it is not.
	Stop string
	// History holds the attempts that did not succeed, the oldest first; Task of Admin fills it.
	History []Attempt
}

// Attempt is one try of a task that did not succeed.
type Attempt struct {
	N       int       `json:"n"`
	Outcome string    `json:"outcome"` // failed, timed_out, canceled, crashed, snoozed, returned, discarded
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Host    string    `json:"host,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// A Process is a worker as stores know it. Its tasks are its own for as long as its lease is live.
type Process struct {
	// Lease is that of the process, in the same store; its Owner is the worker's identity.
	Lease lease.Ref `json:"-"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	// Queues are those that it works. Kinds are those that it knows; none: any.
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds,omitempty"`
	Slots  int      `json:"slots"`
	// Since is when it joined, set by the store.
	Since time.Time `json:"since"`
	// Running is how many tasks it has; Admin.Workers fills it.
	Running int `json:"running"`
}

// The closed set of reasons of discarded, and of those that the store itself gives to canceled.
const (
	ReasonExpired    = "expired"    // ExpiresAt passed while it waited
	ReasonOverlap    = "overlap"    // its limit was reached, and it asked to be discarded then
	ReasonSuperseded = "superseded" // a newer task of its limit takes its place
	ReasonReplaced   = "replaced"   // canceled: a newer task of its limit takes its slot
	ReasonOperator   = "operator"   // somebody did it: the event says who and why
	ReasonWorker     = "worker"     // its handler asked for it
)

// Cold is what a store keeps of a Spec and never looks into: its Options, and how Unique and Limit
// were declared. It is empty where everything is default, and has at most a few hundred bytes.
func (s *Spec) Cold() []byte {
	c := cold{Options: s.Options, Unique: s.Unique, Limit: s.Limit}
	switch just := c.Limit == nil && c.Options.zero(); {
	case just && c.Unique == nil:
		return nil
	case just && *c.Unique == (Unique{Key: c.Unique.Key}) && plain(c.Unique.Key):
		return []byte(beforeKey + c.Unique.Key + afterKey)
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // it holds nothing that could fail
	}
	return b
}

// Thaw is the reverse of Cold.
func (s *Spec) Thaw(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if after, found := bytes.CutPrefix(b, []byte(beforeKey)); found {
		if key, found := bytes.CutSuffix(after, []byte(afterKey)); found && plain(string(key)) {
			s.Options, s.Unique, s.Limit = Options{}, &Unique{Key: string(key)}, nil
			return nil
		}
	}
	var c cold
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	s.Options, s.Unique, s.Limit = c.Options, c.Unique, c.Limit
	return nil
}

// What JSON has before and after a unique key where nothing else is declared. Such tasks are many, and a coder
// takes ten times as long for them as it takes to put a key between these.
const beforeKey, afterKey = `{"unique":{"key":"`, `"}}`

// plain says that JSON has a text as it is.
func plain(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || strings.IndexByte(`"\\<>&`, c) >= 0 {
			return false
		}
	}
	return true
}

type cold struct {
	Options
	Unique *Unique `json:"unique,omitempty"`
	Limit  *Limit  `json:"limit,omitempty"`
}

func (o Options) zero() bool {
	return o.MaxAttempts == 0 && o.RetryUntil.IsZero() && o.Timeout == 0 && o.Backoff == nil &&
		o.MaxCrashes == 0 && o.MaxSnoozes == 0 && len(o.Tags) == 0
}

// AttemptBudget is MaxAttempts with its default.
func (o Options) AttemptBudget() int { return cmp.Or(o.MaxAttempts, DefaultMaxAttempts) }

// CrashBudget is MaxCrashes with its default; stores need it when they rescue.
func (o Options) CrashBudget() int { return cmp.Or(o.MaxCrashes, DefaultMaxCrashes) }

// SnoozeBudget is MaxSnoozes with its default.
func (o Options) SnoozeBudget() int { return cmp.Or(o.MaxSnoozes, DefaultMaxSnoozes) }

// Clone is a copy that shares nothing with s.
func (s Spec) Clone() Spec {
	s.Args, s.Tags = slices.Clone(s.Args), slices.Clone(s.Tags)
	if s.Unique != nil {
		u := *s.Unique
		s.Unique = &u
	}
	if s.Limit != nil {
		l := *s.Limit
		s.Limit = &l
	}
	if s.Backoff != nil {
		b := *s.Backoff
		b.List = slices.Clone(b.List)
		s.Backoff = &b
	}
	return s
}

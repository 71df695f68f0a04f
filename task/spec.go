package task

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// An ID identifies a task within its namespace. IDs grow in the order in which a store adds tasks, and stay below
// 2^53, so that every language can hold them.
type ID int64

// Bounds of a Spec. Everything above them is refused with a *SpecError.
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

// A Spec describes one task to be enqueued.
type Spec struct {
	// Queue is where the task waits. Default "default". Kind chooses its handler; required.
	Queue, Kind string
	// Args is JSON, at most MaxArgs bytes. Default null.
	Args json.RawMessage
	// Priority is from -9 to 9; tasks with a higher one are fetched sooner. Default 0.
	Priority int
	// RunAt is the store's instant before which the task is not fetched; zero: at once. Delay is added to the
	// store's time, or to RunAt if that is set.
	RunAt time.Time
	Delay time.Duration
	// ExpiresAt is when a task that still waits is discarded, reason "expired" (rule Q6); zero: it waits for ever.
	ExpiresAt time.Time
	// Unique allows only one task with its key; nil: any number.
	Unique *Unique
	// Limit caps how many tasks with its key run at once; nil: no cap.
	Limit *Limit
	Options

	broken error // why SpecOf could not write the arguments
}

// SpecOf returns a task of kind whose arguments are args, as JSON; set its other fields as needed. Arguments that
// JSON cannot encode are reported by Check, and so when the task is enqueued.
func SpecOf(kind string, args any) Spec {
	b, err := json.Marshal(args)
	return Spec{Kind: kind, Args: b, broken: err}
}

// Clone returns a copy that shares nothing with s.
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

// Options are the part of a Spec that workers read and stores only keep.
type Options struct {
	// MaxAttempts bounds how often the task is tried. Default 25.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// RetryUntil is the store's instant after which no attempt begins any more; zero: none.
	RetryUntil time.Time `json:"retry_until,omitzero"`
	// Timeout bounds each attempt. Default none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Backoff is the pause before the next attempt. Default: the worker's for the kind.
	Backoff *Backoff `json:"backoff,omitempty"`
	// MaxCrashes bounds how often the task may take down its worker once it is suspect (rule Q4). The task is alone
	// on its worker for the crash that would end it: the worker lets all other tasks end first. Default 3.
	MaxCrashes int `json:"max_crashes,omitempty"`
	// MaxSnoozes bounds how often the task may be postponed without using an attempt (rule Q6). Default 1000.
	MaxSnoozes int `json:"max_snoozes,omitempty"`
	// Tags are words by which to find the task.
	Tags []string `json:"tags,omitempty"`
}

// AttemptBudget returns MaxAttempts with its default.
func (o Options) AttemptBudget() int { return cmp.Or(o.MaxAttempts, DefaultMaxAttempts) }

// CrashBudget returns MaxCrashes with its default; stores need it when they rescue.
func (o Options) CrashBudget() int { return cmp.Or(o.MaxCrashes, DefaultMaxCrashes) }

// SnoozeBudget returns MaxSnoozes with its default.
func (o Options) SnoozeBudget() int { return cmp.Or(o.MaxSnoozes, DefaultMaxSnoozes) }

func (o Options) zero() bool {
	return o.MaxAttempts == 0 && o.RetryUntil.IsZero() && o.Timeout == 0 && o.Backoff == nil &&
		o.MaxCrashes == 0 && o.MaxSnoozes == 0 && len(o.Tags) == 0
}

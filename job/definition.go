package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A definition is what all servers must agree on (rule T11): when the job is due, under which policy, and, if nobody
// vouched for it, which application registered it. What the job runs is not part of it, so that a new version of a
// program can be rolled out. Only that the work is a function is part of it, since no other program has that
// function.
//
// Servers of neighbouring versions of dibs compare its bytes. So a field that is added later is left out (omitempty,
// omitzero) while it has its default.
type definition struct {
	Schedules []string         `json:"schedules"`
	Timezone  string           `json:"timezone"`
	DST       DST              `json:"dst,omitempty"` // not written if it is the default
	Policy    definitionPolicy `json:"policy"`
	Source    string           `json:"source,omitempty"`
	Work      string           `json:"work,omitempty"` // workFunction; not written for what any dibs can run
}

// workFunction marks the definition of a job whose work is a Go function.
const workFunction = "function"

type definitionPolicy struct {
	Concurrency      Concurrency   `json:"concurrency"`
	Scope            Scope         `json:"scope"`
	Timeout          duration      `json:"timeout"`
	Deadline         duration      `json:"deadline"`
	MaxAttempts      int           `json:"max_attempts"`
	RetryMin         duration      `json:"retry_min"`
	RetryMax         duration      `json:"retry_max"`
	CatchUp          CatchUp       `json:"catch_up"`
	CatchUpWindow    duration      `json:"catch_up_window"`
	OnCrash          OnCrash       `json:"on_crash"`
	StartingDeadline duration      `json:"starting_deadline"`
	StopGrace        duration      `json:"stop_grace"`
	Leftovers        Leftovers     `json:"leftovers"`
	OnLostRequest    OnLostRequest `json:"on_lost_request"`
	Jitter           duration      `json:"jitter,omitzero"`
	Between          []string      `json:"between,omitempty"`
	UnlessBetween    []string      `json:"unless_between,omitempty"`
}

// duration is written as Go writes it ("1m30s"): exact, and readable in a store.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = duration(v)
	return err
}

// Definition is the canonical JSON of what a store keeps and compares of a job: its schedules as a set, its zone with
// the meaning of daylight saving, its policy, and its source. Equal definitions have equal bytes.
func (s *Spec) Definition() string {
	schedules := slices.Clone(s.Schedules)
	slices.Sort(schedules)
	dst := s.DST
	if dst == DSTVixie {
		dst = ""
	}
	work := ""
	if s.Function != nil {
		work = workFunction
	}
	p := s.Policy
	b, err := json.Marshal(definition{
		Schedules: append([]string{}, slices.Compact(schedules)...),
		Timezone:  s.Timezone,
		DST:       dst,
		Policy: definitionPolicy{
			Concurrency:      p.Concurrency,
			Scope:            p.Scope,
			Timeout:          duration(p.Timeout),
			Deadline:         duration(p.Deadline),
			MaxAttempts:      p.Retries.MaxAttempts,
			RetryMin:         duration(p.Retries.Min),
			RetryMax:         duration(p.Retries.Max),
			CatchUp:          p.CatchUp,
			CatchUpWindow:    duration(p.CatchUpWindow),
			OnCrash:          p.OnCrash,
			StartingDeadline: duration(p.StartingDeadline),
			StopGrace:        duration(p.StopGrace),
			Leftovers:        p.Leftovers,
			OnLostRequest:    p.OnLostRequest,
			Jitter:           duration(p.Jitter),
			Between:          p.Between,
			UnlessBetween:    p.UnlessBetween,
		},
		Source: s.Source,
		Work:   work,
	})
	if err != nil {
		panic(err) // strings, numbers and durations always marshal
	}
	return string(b)
}

// maxDefinition is tick.MaxDefinition, in bytes.
const maxDefinition = 6 << 20

// ParseDefinition reads what Definition wrote. The Spec has only Schedules, Timezone, DST, Policy and Source, and a
// Function without its name if the work is one. With it, any process can settle the ticks of a registered job
// without the job's manifest.
func ParseDefinition(text string) (*Spec, error) {
	if len(text) > maxDefinition { // it costs many times as much when it is read
		return nil, fmt.Errorf("definition of a job: it has %d bytes: at most %d are read", len(text), maxDefinition)
	}
	var d definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("definition of a job: %w", err)
	}
	var function *Function
	if d.Work == workFunction {
		function = &Function{}
	}
	p := d.Policy
	return &Spec{
		Function:  function,
		Schedules: d.Schedules,
		Timezone:  d.Timezone,
		DST:       cmp.Or(d.DST, DSTVixie),
		Policy: Policy{
			Concurrency:      p.Concurrency,
			Scope:            p.Scope,
			Timeout:          time.Duration(p.Timeout),
			Deadline:         time.Duration(p.Deadline),
			Retries:          Retries{p.MaxAttempts, time.Duration(p.RetryMin), time.Duration(p.RetryMax)},
			CatchUp:          p.CatchUp,
			CatchUpWindow:    time.Duration(p.CatchUpWindow),
			OnCrash:          p.OnCrash,
			StartingDeadline: time.Duration(p.StartingDeadline),
			StopGrace:        time.Duration(p.StopGrace),
			Leftovers:        p.Leftovers,
			OnLostRequest:    p.OnLostRequest,
			Jitter:           time.Duration(p.Jitter),
			Between:          p.Between,
			UnlessBetween:    p.UnlessBetween,
		},
		Source: d.Source,
	}, nil
}

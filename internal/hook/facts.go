package hook

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// Facts are what a webhook gets as its body and a command on its standard input. Their form is
// stable: fields may be added.
type Facts struct {
	Event    job.HookEvent `json:"event"`
	Job      string        `json:"job,omitempty"`
	Tick     time.Time     `json:"tick,omitzero"`
	Through  time.Time     `json:"through,omitzero"`
	Count    int           `json:"count,omitempty"`
	Outcome  run.Outcome   `json:"outcome,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Amends   run.Outcome   `json:"amends,omitempty"`
	HeldBy   string        `json:"held_by,omitempty"`
	RunID    string        `json:"run_id,omitempty"`
	Token    int64         `json:"token,omitempty"`
	Host     string        `json:"host,omitempty"`
	Attempts int           `json:"attempts,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`
	Output   string        `json:"output,omitempty"`

	// A task has the following in place of a job's facts.
	Task    int64    `json:"task,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Queue   string   `json:"queue,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Error   string   `json:"error,omitempty"`
	Again   float64  `json:"again_seconds,omitempty"`
}

func factsOf(h scheduler.Happening) Facts {
	return Facts{Event: h.On, Job: h.Job, Tick: h.Tick.UTC(), Through: h.Through.UTC(), Count: h.Count,
		Outcome: h.Outcome, Reason: h.Reason, Amends: h.Amends, HeldBy: h.HeldBy,
		RunID: h.Run.ID, Token: int64(h.Run.Token), Host: h.Run.Host, Attempts: len(h.Run.Attempts),
		Started: h.Run.Started.UTC(), Ended: h.Run.Ended.UTC(), Output: strings.ToValidUTF8(string(h.Output), "\uFFFD")}
}

func (f Facts) json() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings, numbers and instants always marshal
	}
	return append(b, '\n')
}

// environ are the facts as variables. They do not bear the names that a run's own have: by those,
// what is left of a run is found and killed.
func (f Facts) environ() (env []string) {
	add := func(name, value string) {
		if value != "" && value != "0" {
			env = append(env, "DIBS_HOOK"+name+"="+strings.ReplaceAll(value, "\x00", "\uFFFD"))
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	add("", string(f.Event))
	add("_JOB", f.Job)
	add("_TICK", at(f.Tick))
	add("_THROUGH", at(f.Through))
	add("_COUNT", strconv.Itoa(f.Count))
	add("_OUTCOME", string(f.Outcome))
	add("_REASON", f.Reason)
	add("_AMENDS", string(f.Amends))
	add("_HELD_BY", f.HeldBy)
	add("_RUN_ID", f.RunID)
	add("_TOKEN", strconv.FormatInt(f.Token, 10))
	add("_HOST", f.Host)
	add("_ATTEMPTS", strconv.Itoa(f.Attempts))
	add("_STARTED", at(f.Started))
	add("_ENDED", at(f.Ended))
	add("_TASK", strconv.FormatInt(f.Task, 10))
	add("_KIND", f.Kind)
	add("_QUEUE", f.Queue)
	add("_TAGS", strings.Join(f.Tags, ","))
	add("_ATTEMPT", strconv.Itoa(f.Attempt))
	add("_ERROR", f.Error)
	add("_AGAIN", strconv.FormatFloat(f.Again, 'f', -1, 64))
	return env
}

// words are the facts for a ping's log: a line, and the end of what the run printed.
func (f Facts) words() string {
	var b strings.Builder
	if f.Job != "" {
		b.WriteString(f.Job + ": ")
	}
	b.WriteString(f.about())
	if f.Outcome != "" && string(f.Outcome) != string(f.Event) {
		b.WriteString(", " + string(f.Outcome))
	}
	if f.Reason != "" {
		b.WriteString(": " + f.Reason)
	}
	if f.Amends != "" {
		b.WriteString(": it had been concluded as " + string(f.Amends))
	}
	if f.Count > 1 && f.Event != onCrash {
		b.WriteString(" (" + strconv.Itoa(f.Count) + " ticks)")
	}
	b.WriteByte('\n')
	if end := f.Output + f.Error; end != "" {
		b.WriteString("\n" + end)
	}
	return b.String()
}

// id is the same for each attempt to tell this, and another one for everything else.
func (f Facts) id() string {
	what := f.RunID
	switch {
	case f.Task != 0:
		what = "task/" + strconv.FormatInt(f.Task, 10) + "/" + strconv.FormatInt(f.Token, 10)
	case f.Event == onCrash:
		what = "tasks@" + f.Ended.Format(time.RFC3339Nano)
	case what == "":
		what = f.Job + "@" + f.Tick.Format(time.RFC3339Nano)
	}
	return what + "/" + string(f.Event)
}

package tick

import (
	"encoding/json"
	"fmt"
	"time"
)

// past is one definition of Job.Past. Instants are in µs.
type past struct {
	Definition string `json:"definition"`
	Since      int64  `json:"since"`
	Until      int64  `json:"until"`
}

// EncodePast encodes definitions, as Definitions returns them, for Job.Past; no definitions are the empty text.
func EncodePast(ended []Job) string {
	if len(ended) == 0 {
		return ""
	}
	all := make([]past, len(ended))
	for i, j := range ended {
		all[i] = past{j.Definition, j.Since.UnixMicro(), j.Until.UnixMicro()}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // text and numbers always marshal
	}
	return string(b)
}

// Definitions returns the definitions that the job's ticks above its mark may belong to, oldest first; the last one
// is in force. Each is the job as if it had that definition, from its Since until its Until. If Past cannot be read,
// the error says so, and the definition in force is returned all the same.
func (j Job) Definitions() ([]Job, error) {
	if j.Past == "" {
		return []Job{j}, nil
	}
	var ended []past
	if err := json.Unmarshal([]byte(j.Past), &ended); err != nil {
		return []Job{j}, fmt.Errorf("%s: its past definitions: %w", j.Name, err)
	}
	var all []Job
	for _, p := range ended {
		d := j.As(Job{Definition: p.Definition, Since: time.UnixMicro(p.Since).UTC(), Until: time.UnixMicro(p.Until).UTC()})
		if d.Until.After(d.Since) {
			all = append(all, d)
		}
	}
	return append(all, j), nil
}

// As returns the job as if it had another of its definitions. A definition that ended did so at the latest when the
// present one began: the beginning may have been moved back since (rule L12).
func (j Job) As(definition Job) Job {
	if definition.Until.IsZero() {
		return j
	}
	until := definition.Until
	if until.After(j.Since) {
		until = j.Since
	}
	j.Definition, j.Since, j.Until, j.Past = definition.Definition, definition.Since, until, ""
	return j
}

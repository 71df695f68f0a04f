package manifest

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/dibs-run/dibs/job"
)

// The limits of a task: those of package queue, which this one does not import.
const (
	maxArgs         = 256 << 10
	maxTags         = 16
	maxPriority     = 9
	maxTaskAttempts = 1_000_000
	maxSlots        = 1_000_000
	taskAttempts    = 25
	maxPauses       = 100
	taskQueue       = "default"
)

// taskShape is a task to enqueue. It names nothing that this server would execute, so that an
// application may say it.
func taskShape() *shape {
	kind := textOf("The workers' handler of the task.", wordRule)
	kind.want = "a kind of task"
	key := textOf("Tasks with the same key share the limit.", keyRule)
	key.want = "the limit's key"
	return objectOf("A task to enqueue, instead of a request. Its tick is its unique key.",
		prop{"kind", true, kind},
		prop{"queue", false, textOf("The queue.", wordRule).byDefault(taskQueue)},
		prop{"args", false, &shape{free: true, about: "Its arguments: any JSON, at most 256 KiB."}},
		prop{"priority", false, numberOf("A higher one is fetched sooner.", -maxPriority, maxPriority).byDefault(int64(0))},
		prop{"delay_seconds", false, numberOf("The task waits this long before its first attempt.", 0, maxSeconds).byDefault(int64(0))},
		prop{"max_attempts", false, numberOf("The number of attempts, the first one included.", 1, maxTaskAttempts).byDefault(int64(taskAttempts))},
		prop{"retry_seconds", false, numberOf("No retry begins later than this after the enqueueing; 0 is no bound.", 0, maxSeconds).byDefault(int64(0))},
		prop{"backoff_seconds", false, listOf("The pauses after the first, second, … failed attempt; the last one repeats. Default: the worker's for the kind, or 1 s, doubled up to 1 h.",
			0, maxPauses, numberOf("", 0, maxSeconds))},
		prop{"timeout_seconds", false, numberOf("Bounds each attempt; 0 is none.", 0, maxSeconds).byDefault(int64(0))},
		prop{"expires_seconds", false, numberOf("A task that still waits this long after the enqueueing is discarded; 0 is never.", 0, maxSeconds).byDefault(int64(0))},
		prop{"limit", false, objectOf("Caps how many tasks of the key run at once.",
			prop{"key", true, key},
			prop{"shared", false, flagOf("The key is the same for all kinds of tasks.")},
			prop{"max", false, numberOf("How many tasks of the key run at the same time.", 1, maxSlots).byDefault(int64(1))},
			prop{"on_contention", false, wordOf("When the limit is reached: wait, discard this task, or stop the running one (replace).",
				job.ContentionWait, job.ContentionDiscard, job.ContentionReplace).byDefault(string(job.ContentionWait))})},
		prop{"tags", false, listOf("Words to search for.", 0, maxTags, textOf("", wordRule))})
}

func flagOf(about string) *shape {
	return &shape{kind: boolean, about: about, standard: false}
}

// task reads what a job enqueues.
func (r *reader) task(f field) *job.Task {
	o := fieldsOf(f)
	t := &job.Task{Queue: word(r, o.get("queue"), taskQueue), Args: r.args(o.get("args")), Priority: int(r.integer(o.get("priority"), 0)),
		Delay: r.seconds(o.get("delay_seconds"), 0), Expires: r.seconds(o.get("expires_seconds"), 0),
		MaxAttempts: int(r.integer(o.get("max_attempts"), taskAttempts)), Retry: r.seconds(o.get("retry_seconds"), 0),
		Timeout: r.seconds(o.get("timeout_seconds"), 0)}
	t.Kind, _ = r.text(o.get("kind"))
	for _, item := range items(o.get("backoff_seconds")) {
		t.Backoff = append(t.Backoff, r.seconds(item, 0))
	}
	for _, item := range items(o.get("tags")) {
		tag, _ := r.text(item)
		t.Tags = append(t.Tags, tag)
	}
	if t.Expires > 0 && t.Expires <= t.Delay {
		r.fail(o.get("expires_seconds"), "it would be discarded before its delay of %d s is over: want more than delay_seconds", t.Delay/time.Second)
	}
	if t.Retry > 0 && t.Retry <= t.Delay {
		r.fail(o.get("retry_seconds"), "no retry could begin after its delay of %d s: want more than delay_seconds", t.Delay/time.Second)
	}
	if l := o.get("limit"); l.present() {
		of := fieldsOf(l)
		t.Limit = &job.TaskLimit{Shared: r.is(of.get("shared"), boolean) && of.get("shared").node.text == "true",
			Max: int(r.integer(of.get("max"), 1)), OnContention: word(r, of.get("on_contention"), job.ContentionWait)}
		t.Limit.Key, _ = r.text(of.get("key"))
	}
	return t
}

// args writes a value as JSON without white space, fields by name, numbers as they are written.
func (r *reader) args(f field) string {
	if !f.present() {
		return "null"
	}
	b, err := compact(f.node.value())
	if err != nil {
		return "null" // it holds what was refused
	}
	if len(b) > maxArgs {
		r.fail(f, "as JSON it has %d bytes: want at most %d; store large data elsewhere, and pass its location", len(b), maxArgs)
	}
	return string(b)
}

// compact is the canonical form of one value.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return plainSeparators(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// value is a node as encoding/json writes it.
func (n *node) value() any {
	switch n.kind {
	case boolean:
		return n.text == "true"
	case number:
		return json.Number(n.text)
	case text:
		return n.text
	case list:
		all := []any{}
		for _, item := range n.items {
			all = append(all, item.value())
		}
		return all
	case object:
		all := map[string]any{}
		for _, m := range n.fields {
			all[m.name] = m.value.value()
		}
		return all
	}
	return nil
}

type canonicalTask struct {
	Kind        string          `json:"kind"`
	Queue       string          `json:"queue"`
	Args        json.RawMessage `json:"args"`
	Priority    int             `json:"priority,omitempty"`
	Delay       int64           `json:"delay_seconds,omitempty"`
	MaxAttempts int             `json:"max_attempts"`
	Retry       int64           `json:"retry_seconds,omitempty"`
	Backoff     []int64         `json:"backoff_seconds,omitempty"`
	Timeout     int64           `json:"timeout_seconds,omitempty"`
	Expires     int64           `json:"expires_seconds,omitempty"`
	Limit       *canonicalLimit `json:"limit,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
}

type canonicalLimit struct {
	Key          string         `json:"key"`
	Shared       bool           `json:"shared,omitempty"`
	Max          int            `json:"max"`
	OnContention job.Contention `json:"on_contention"`
}

func canonicalTaskOf(t *job.Task) *canonicalTask {
	c := &canonicalTask{Kind: t.Kind, Queue: t.Queue, Args: json.RawMessage(t.Args), Priority: t.Priority, Delay: int64(t.Delay / time.Second),
		MaxAttempts: t.MaxAttempts, Retry: int64(t.Retry / time.Second), Timeout: int64(t.Timeout / time.Second),
		Expires: int64(t.Expires / time.Second), Limit: (*canonicalLimit)(t.Limit), Tags: t.Tags}
	for _, d := range t.Backoff {
		c.Backoff = append(c.Backoff, int64(d/time.Second))
	}
	return c
}

package queue_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// What is refused is refused before a store sees it, and names its field.
func TestWhatATaskMayNotSay(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	key, number := strings.Repeat("k", 513), -1
	for name, c := range map[string]struct {
		field string
		s     queue.Spec
	}{
		"no kind":                    {"kind", queue.Spec{}},
		"a kind with a blank":        {"kind", queue.Spec{Kind: "a b"}},
		"a long queue":               {"queue", queue.Spec{Kind: "k", Queue: key}},
		"no JSON":                    {"args", queue.Spec{Kind: "k", Args: json.RawMessage("{")}},
		"too much":                   {"args", queue.Spec{Kind: "k", Args: json.RawMessage(`"` + strings.Repeat("x", queue.MaxArgs) + `"`)}},
		"a NUL":                      {"args", queue.Spec{Kind: "k", Args: json.RawMessage(`"\u0000"`)}},
		"no UTF-8":                   {"args", queue.Spec{Kind: "k", Args: json.RawMessage("\"\xff\"")}},
		"arguments that are no JSON": {"args", queue.Define[func()]("k").Spec(nil)},
		"a priority":                 {"priority", queue.Spec{Kind: "k", Priority: 10}},
		"a delay":                    {"delay", queue.Spec{Kind: "k", Delay: -1}},
		"a timeout":                  {"timeout", queue.Spec{Kind: "k", Options: queue.Options{Timeout: -1}}},
		"attempts":                   {"max_attempts", queue.Spec{Kind: "k", Options: queue.Options{MaxAttempts: number}}},
		"a tag":                      {"tags", queue.Spec{Kind: "k", Options: queue.Options{Tags: []string{""}}}},
		"the distant past":           {"run_at", queue.Spec{Kind: "k", RunAt: year(1969)}},
		"the distant future":         {"run_at", queue.Spec{Kind: "k", RunAt: year(10000)}},
		"a delay into it":            {"delay", queue.Spec{Kind: "k", RunAt: year(9999), Delay: 400 * 24 * time.Hour}},
		"an end in it":               {"expires_at", queue.Spec{Kind: "k", ExpiresAt: year(300_000)}},
		"retries into it":            {"retry_until", queue.Spec{Kind: "k", Options: queue.Options{RetryUntil: year(10000)}}},
		"no time to run":             {"expires_at", queue.Spec{Kind: "k", RunAt: year(2030), ExpiresAt: year(2030)}},
		"a pause that is none":       {"backoff.factor", queue.Spec{Kind: "k", Options: queue.Options{Backoff: &queue.Backoff{Factor: math.NaN()}}}},
		"a pause without end":        {"backoff.factor", queue.Spec{Kind: "k", Options: queue.Options{Backoff: &queue.Backoff{Factor: math.Inf(1)}}}},
		"a negative pause":           {"backoff", queue.Spec{Kind: "k", Options: queue.Options{Backoff: &queue.Backoff{List: []time.Duration{1, -1}}}}},
		"many pauses":                {"backoff.list", queue.Spec{Kind: "k", Options: queue.Options{Backoff: &queue.Backoff{List: make([]time.Duration, 101)}}}},
		"no unique key":              {"unique.key", queue.Spec{Kind: "k", Unique: &queue.Unique{}}},
		"a long unique key":          {"unique.key", queue.Spec{Kind: "k", Unique: &queue.Unique{Key: key}}},
		"replace what runs":          {"unique.again", queue.Spec{Kind: "k", Unique: &queue.Unique{Key: "u", Again: queue.Replace}}},
		"debounce by nothing":        {"delay", queue.Spec{Kind: "k", Unique: &queue.Unique{Key: "u", Until: queue.UntilStarted, Again: queue.Debounce}}},
		"a window from the start":    {"unique.window", queue.Spec{Kind: "k", Unique: &queue.Unique{Key: "u", Until: queue.UntilStarted, Window: 1}}},
		"no limit's key":             {"limit.key", queue.Spec{Kind: "k", Limit: &queue.Limit{}}},
		"a negative limit":           {"limit.max", queue.Spec{Kind: "k", Limit: &queue.Limit{Key: "l", Max: -1}}},
		"contention":                 {"limit.on_contention", queue.Spec{Kind: "k", Limit: &queue.Limit{Key: "l", OnContention: "fight"}}},
	} {
		refused(t, name, c.field, c.s.Check())
	}
	for name, c := range map[string]struct {
		field string
		a     queue.Action
	}{
		"a move to nowhere":    {"queue", queue.Action{Act: queue.ActMove}},
		"a move out of reach":  {"queue", queue.Action{Act: queue.ActMove, Queue: "a b"}},
		"an edited priority":   {"priority", queue.Action{Act: queue.ActEdit, Edit: queue.Edit{Priority: &number}}},
		"an edited instant":    {"run_at", queue.Action{Act: queue.ActEdit, Edit: queue.Edit{RunAt: &time.Time{}}}},
		"a far edited instant": {"run_at", queue.Action{Act: queue.ActEdit, Edit: queue.Edit{RunAt: at(year(10000))}}},
	} {
		if c.a.Edit.Priority != nil {
			*c.a.Edit.Priority = -10
		}
		refused(t, name, c.field, c.a.Check())
	}
	p := queue.Pause{Queue: "a\nb"}
	refused(t, "a pause of what cannot be", "queue", p.Check())
	p = queue.Pause{Until: year(10000)}
	refused(t, "a pause for ever", "until", p.Check())
}

func at(t time.Time) *time.Time { return &t }

func refused(t *testing.T, name, field string, err error) {
	t.Helper()
	var wrong *queue.SpecError
	if !errors.As(err, &wrong) || wrong.Field != field {
		t.Errorf("%s: got %v, want a SpecError of %s", name, err, field)
	}
}

// What a task may say is not refused.
func TestWhatATaskMaySay(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	s := queue.Spec{Kind: "k", RunAt: soon, Delay: time.Hour, ExpiresAt: soon.Add(2 * time.Hour), Unique: &queue.Unique{Key: "u", Window: time.Hour},
		Limit: &queue.Limit{Key: "l", Max: 3}, Options: queue.Options{RetryUntil: soon, Backoff: &queue.Backoff{List: []time.Duration{0, time.Second}, Factor: 1}}}
	if err := s.Check(); err != nil || s.Queue != queue.DefaultQueue || string(s.Args) != "null" {
		t.Errorf("%v, %+v", err, s)
	}
	for _, a := range []queue.Action{{Act: queue.ActMove, Queue: "q"}, {Act: queue.ActEdit, Edit: queue.Edit{RunAt: &soon}}, {Act: queue.ActCancel}} {
		if err := a.Check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if err := (&queue.Pause{}).Check(); err != nil {
		t.Error(err)
	}
}

// What is kept of a task that declares a key and nothing else is what the encoder makes of it, whatever the key.
func TestColdIsJSON(t *testing.T) {
	for _, key := range []string{"k", "a/b:c 7", `"`, `\`, `\u0041`, "<&>", "ü", "\u2028", "\x7f", `","until":"started`, `"}}`, ""} {
		for _, u := range []queue.Unique{{Key: key}, {Key: key, Shared: true}, {Key: key, Window: 1}} {
			s := queue.Spec{Kind: "k", Unique: &u}
			want, err := json.Marshal(map[string]any{"unique": u})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Cold(); string(got) != string(want) {
				t.Errorf("Cold: %s, want %s", got, want)
			}
			var back queue.Spec
			if err := back.Thaw(s.Cold()); err != nil || back.Unique == nil || *back.Unique != u {
				t.Errorf("Thaw of %s: %+v, %v", want, back.Unique, err)
			}
		}
	}
	for _, damaged := range []string{`{"unique":{"key":"k`, `{"unique":{"key":"k"}`, `{"unique":{"key":"}}`} {
		if err := new(queue.Spec).Thaw([]byte(damaged)); err == nil {
			t.Errorf("%s was read", damaged)
		}
	}
}

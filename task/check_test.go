package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/task"
)

// What is refused is refused before a store sees it, and names its field.
func TestWhatATaskMayNotSay(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	key := strings.Repeat("k", 513)
	for name, c := range map[string]struct {
		field string
		s     task.Spec
	}{
		"no kind":                    {"kind", task.Spec{}},
		"a kind with a blank":        {"kind", task.Spec{Kind: "a b"}},
		"a long queue":               {"queue", task.Spec{Kind: "k", Queue: key}},
		"no JSON":                    {"args", task.Spec{Kind: "k", Args: json.RawMessage("{")}},
		"too much":                   {"args", task.Spec{Kind: "k", Args: json.RawMessage(`"` + strings.Repeat("x", task.MaxArgs) + `"`)}},
		"a NUL":                      {"args", task.Spec{Kind: "k", Args: json.RawMessage(`"\u0000"`)}},
		"no UTF-8":                   {"args", task.Spec{Kind: "k", Args: json.RawMessage("\"\xff\"")}},
		"arguments that are no JSON": {"args", task.SpecOf("k", func() {})},
		"a priority":                 {"priority", task.Spec{Kind: "k", Priority: 10}},
		"a delay":                    {"delay", task.Spec{Kind: "k", Delay: -1}},
		"a timeout":                  {"timeout", task.Spec{Kind: "k", Options: task.Options{Timeout: -1}}},
		"attempts":                   {"max_attempts", task.Spec{Kind: "k", Options: task.Options{MaxAttempts: -1}}},
		"a tag":                      {"tags", task.Spec{Kind: "k", Options: task.Options{Tags: []string{""}}}},
		"the distant past":           {"run_at", task.Spec{Kind: "k", RunAt: year(1969)}},
		"the distant future":         {"run_at", task.Spec{Kind: "k", RunAt: year(10000)}},
		"a delay into it":            {"delay", task.Spec{Kind: "k", RunAt: year(9999), Delay: 400 * 24 * time.Hour}},
		"an end in it":               {"expires_at", task.Spec{Kind: "k", ExpiresAt: year(300_000)}},
		"retries into it":            {"retry_until", task.Spec{Kind: "k", Options: task.Options{RetryUntil: year(10000)}}},
		"no time to run":             {"expires_at", task.Spec{Kind: "k", RunAt: year(2030), ExpiresAt: year(2030)}},
		"a pause that is none":       {"backoff.factor", task.Spec{Kind: "k", Options: task.Options{Backoff: &task.Backoff{Factor: math.NaN()}}}},
		"a pause without end":        {"backoff.factor", task.Spec{Kind: "k", Options: task.Options{Backoff: &task.Backoff{Factor: math.Inf(1)}}}},
		"a negative pause":           {"backoff", task.Spec{Kind: "k", Options: task.Options{Backoff: &task.Backoff{List: []time.Duration{1, -1}}}}},
		"many pauses":                {"backoff.list", task.Spec{Kind: "k", Options: task.Options{Backoff: &task.Backoff{List: make([]time.Duration, 101)}}}},
		"no unique key":              {"unique.key", task.Spec{Kind: "k", Unique: &task.Unique{}}},
		"a long unique key":          {"unique.key", task.Spec{Kind: "k", Unique: &task.Unique{Key: key}}},
		"replace what runs":          {"unique.again", task.Spec{Kind: "k", Unique: &task.Unique{Key: "u", Again: task.Replace}}},
		"debounce by nothing":        {"delay", task.Spec{Kind: "k", Unique: &task.Unique{Key: "u", Until: task.UntilStarted, Again: task.Debounce}}},
		"a window from the start":    {"unique.window", task.Spec{Kind: "k", Unique: &task.Unique{Key: "u", Until: task.UntilStarted, Window: 1}}},
		"no limit's key":             {"limit.key", task.Spec{Kind: "k", Limit: &task.Limit{}}},
		"a negative limit":           {"limit.max", task.Spec{Kind: "k", Limit: &task.Limit{Key: "l", Max: -1}}},
		"contention":                 {"limit.on_contention", task.Spec{Kind: "k", Limit: &task.Limit{Key: "l", OnContention: "fight"}}},
	} {
		refused(t, name, c.field, c.s.Check())
	}
}

func refused(t *testing.T, name, field string, err error) {
	t.Helper()
	var wrong *task.SpecError
	if !errors.As(err, &wrong) || wrong.Field != field {
		t.Errorf("%s: got %v, want a SpecError of %s", name, err, field)
	}
}

// What a task may say is not refused.
func TestWhatATaskMaySay(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	s := task.Spec{Kind: "k", RunAt: soon, Delay: time.Hour, ExpiresAt: soon.Add(2 * time.Hour), Unique: &task.Unique{Key: "u", Window: time.Hour},
		Limit: &task.Limit{Key: "l", Max: 3}, Options: task.Options{RetryUntil: soon, Backoff: &task.Backoff{List: []time.Duration{0, time.Second}, Factor: 1}}}
	if err := s.Check(); err != nil || s.Queue != task.DefaultQueue || string(s.Args) != "null" {
		t.Errorf("%v, %+v", err, s)
	}
}

// What is kept of a task that declares a key and nothing else is what the encoder makes of it, whatever the key.
func TestColdIsJSON(t *testing.T) {
	for _, key := range []string{"k", "a/b:c 7", `"`, `\`, `\u0041`, "<&>", "ü", "\u2028", "\x7f", `","until":"started`, `"}}`, ""} {
		for _, u := range []task.Unique{{Key: key}, {Key: key, Shared: true}, {Key: key, Window: 1}} {
			s := task.Spec{Kind: "k", Unique: &u}
			want, err := json.Marshal(map[string]any{"unique": u})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.MarshalOptions(); string(got) != string(want) {
				t.Errorf("MarshalOptions: %s, want %s", got, want)
			}
			var back task.Spec
			if err := back.UnmarshalOptions(s.MarshalOptions()); err != nil || back.Unique == nil || *back.Unique != u {
				t.Errorf("Thaw of %s: %+v, %v", want, back.Unique, err)
			}
		}
	}
	for _, damaged := range []string{`{"unique":{"key":"k`, `{"unique":{"key":"k"}`, `{"unique":{"key":"}}`} {
		if err := new(task.Spec).UnmarshalOptions([]byte(damaged)); err == nil {
			t.Errorf("%s was read", damaged)
		}
	}
}

// Only an escape is the character U+0000: its backslash is not escaped itself.
func TestTheTextOfAnEscapeIsAccepted(t *testing.T) {
	for args, ok := range map[string]bool{
		`"\u0000"`: false, `"a\\\u0000b"`: false, `{"\u0000":1}`: false, `["\n\u0000"]`: false,
		`"\\u0000"`: true, `{"re":"[\\u0000-\\u001f]"}`: true, `"\\\\u0000"`: true, `"\u00001"`: false, `"\u0001"`: true, `"u0000"`: true, `"\\"`: true,
	} {
		s := task.Spec{Kind: "k", Args: []byte(args)}
		var value any
		if err := json.Unmarshal(s.Args, &value); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if has := strings.Contains(fmt.Sprint(value), "\x00"); has == ok {
			t.Fatalf("%s has U+0000: %v; the table says %v", args, has, !ok)
		}
		if err := s.Check(); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Whatever Check accepts has sane bounds, at the extremes of every duration and count; what it refuses, it names.
func TestNoAcceptedValueIsExtreme(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	durations := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64/10 - 1, math.MaxInt64 / 10, math.MaxInt64/10 + 1, math.MaxInt64 - 1, math.MaxInt64}
	counts := []int{math.MinInt, -1, 0, 1, 1_000_000, 1_000_001, math.MaxInt32 + 1, math.MaxInt}
	var specs []task.Spec
	for _, d := range durations {
		for _, at := range []time.Time{{}, now, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			u := task.Unique{Key: "u", Until: task.UntilStarted, Again: task.Debounce, MaxWait: max(d/2, 0)}
			specs = append(specs, task.Spec{Delay: d, RunAt: at}, task.Spec{Delay: d, RunAt: at, Unique: &u}, task.Spec{Delay: d, Unique: &task.Unique{Key: "u", Until: task.UntilStarted, Again: task.Debounce}})
		}
		specs = append(specs, task.Spec{Options: task.Options{Timeout: d}}, task.Spec{Unique: &task.Unique{Key: "u", Window: d}}, task.Spec{Delay: 1, Unique: &task.Unique{Key: "u", MaxWait: d}},
			task.Spec{Options: task.Options{Backoff: &task.Backoff{List: []time.Duration{d}}}}, task.Spec{Options: task.Options{Backoff: &task.Backoff{Base: d, Cap: d, Factor: 1000}}})
	}
	for _, n := range counts {
		specs = append(specs, task.Spec{Priority: n}, task.Spec{Options: task.Options{MaxAttempts: n}}, task.Spec{Options: task.Options{MaxCrashes: n}}, task.Spec{Options: task.Options{MaxSnoozes: n}}, task.Spec{Limit: &task.Limit{Key: "l", Max: n}})
		for _, d := range durations {
			for _, burst := range counts {
				r := task.Rate{Count: n, Per: d, Burst: burst}
				if r.Check() != nil || r == (task.Rate{}) {
					continue
				}
				if b := r.Bursts(); b < 1 || b > r.Count || r.Per/time.Duration(r.Count)*time.Duration(b) <= 0 || r.Per/time.Duration(r.Count)*time.Duration(b) > r.Per {
					t.Errorf("%+v is accepted, with a burst of %d", r, b)
				}
				if w := r.Window(); w < r.Per || w-r.Per > time.Second {
					t.Errorf("%+v is accepted, with a window of %v", r, w)
				}
			}
		}
	}
	sane := func(s *task.Spec, what string, d time.Duration) {
		if d < 0 {
			t.Errorf("%+v: %s is %v", s, what, d)
		}
		if err := task.CheckInstant(what, now.Add(d)); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	refused := 0
	for _, s := range specs {
		s.Kind = "k"
		if err := s.Check(); err != nil {
			var spec *task.SpecError
			if !errors.As(err, &spec) || spec.Field == "" {
				t.Errorf("%+v: %v", s, err)
			}
			refused++
			continue
		}
		sane(&s, "delay", s.Delay)
		sane(&s, "timeout", s.Timeout)
		if s.Backoff != nil {
			for _, n := range []int{1, 2, 1_000_000} {
				sane(&s, "back-off", s.Backoff.After(n))
			}
		}
		if u := s.Unique; u != nil {
			sane(&s, "longest", u.Longest(s.Delay))
			sane(&s, "window", u.Window)
			if u.Again == task.Debounce && u.Longest(s.Delay) < s.Delay && u.MaxWait == 0 {
				t.Errorf("%+v: it may wait for %v at most", s, u.Longest(s.Delay))
			}
		}
		for what, n := range map[string]int{"attempts": s.AttemptBudget(), "crashes": s.CrashBudget(), "snoozes": s.SnoozeBudget()} {
			if n < 1 || n > 1_000_000 {
				t.Errorf("%+v: %d %s", s, n, what)
			}
		}
		if s.Limit != nil && (s.Limit.Slots() < 1 || s.Limit.Slots() > 1_000_000) {
			t.Errorf("%+v: %d slots", s, s.Limit.Slots())
		}
	}
	if refused == 0 || refused == len(specs) {
		t.Errorf("%d of %d are refused", refused, len(specs))
	}
}

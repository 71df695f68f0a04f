package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// content is what the public contracts read of a store, as far as no clock changes it.
type content struct {
	Leases  []lease.Record
	Jobs    []tick.Job
	Ticks   []tick.Tick
	Owed    []tick.Tick
	Runs    []run.Record
	Outputs map[string]string
	Events  []history.Event
	Tasks   []driver.Task
	Queues  []driver.SubQueue
	Pauses  []driver.Pause
	Limits  []driver.Word
	Rates   map[string]time.Duration // what one task of a kind costs
	Counts  []driver.Count
}

// read reads everything.
func (s Subject) read(t *testing.T, st *store.Store) (c content) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	leases, err := st.Leases.List(ctx, "", true)
	check("leases", err)
	for _, a := range leases.Answers {
		if s.Kernel {
			a.Record.Expires, a.Record.Broken = time.Time{}, nil
		}
		if !s.Kernel || !a.Record.Key.Once() {
			c.Leases = append(c.Leases, a.Record)
		}
	}
	c.Jobs, err = st.Ticks.Jobs(ctx, tick.JobQuery{})
	check("jobs", err)
	q := history.Query{Limit: 10_000}
	c.Ticks, err = st.History.Ticks(ctx, q)
	check("ticks", err)
	owed, err := st.Ticks.Owed(ctx, tick.OwedLook{App: "shop"})
	check("owed ticks", err)
	c.Owed = owed.Ticks
	c.Runs, err = st.History.Runs(ctx, q)
	check("runs", err)
	c.Outputs = map[string]string{}
	for _, r := range c.Runs {
		b, err := st.History.ReadOutput(ctx, r.ID)
		check("output", err)
		c.Outputs[r.ID] = string(b)
	}
	c.Events, err = st.History.Events(ctx, q)
	check("events", err)
	tasks, err := st.Tasks.Tasks(ctx, driver.Filter{Max: 1000})
	check("tasks", err)
	for _, x := range tasks {
		whole, _, ok, err := st.Tasks.Task(ctx, x.ID)
		check("task", err)
		if !ok {
			t.Errorf("task %d is listed, and not there", x.ID)
		}
		c.Tasks = append(c.Tasks, whole)
	}
	c.Queues, err = st.Tasks.Queues(ctx)
	check("queues", err)
	c.Pauses, err = st.Tasks.Pauses(ctx)
	check("pauses", err)
	c.Limits, err = st.Tasks.Limits(ctx)
	check("limits", err)
	rates, err := st.Tasks.Rates(ctx)
	check("rates", err)
	c.Rates = map[string]time.Duration{}
	for kind, r := range rates {
		c.Rates[kind] = r.Each
	}
	c.Counts, err = st.Tasks.Counts(ctx, time.Unix(0, 0), time.Now().AddDate(100, 0, 0))
	check("counters", err)
	return c
}

// expected is a fixture's content.
func expected(t *testing.T, dir string) (v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "content.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// plain is a content as JSON has it.
func plain(t *testing.T, c content) (v any) {
	t.Helper()
	b, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// same compares what is wanted with what was read. A later tree may know more of everything than the one that made the
// fixture: what is wanted says which fields count.
func same(t *testing.T, when string, want any, got content) {
	t.Helper()
	if all := differences("", want, plain(t, got)); len(all) > 0 {
		t.Errorf("%s, the data differs:\n%s", when, strings.Join(all[:min(len(all), 20)], "\n"))
	}
}

func differences(path string, want, got any) (all []string) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		names := make([]string, 0, len(w))
		for name := range w {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			all = append(all, differences(path+"."+name, w[name], g[name])...)
		}
		return all
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s: %d entries, want %d", path, len(g), len(w))}
		}
		for i := range w {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return all
	}
	if want != got {
		return []string{fmt.Sprintf("%s: %v, want %v", path, got, want)}
	}
	return nil
}

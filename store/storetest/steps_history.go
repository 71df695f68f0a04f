package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func (m *maker) events(of string) (all []history.Event) {
	for i, name := range m.names(of) {
		all = append(all, history.Event{ID: fmt.Sprintf("%s-%d-%d", of, m.round, i), At: m.at(i), Kind: "k", Job: name, RunID: "run-of-" + name})
	}
	return all
}

func (m *maker) runs(of string) (all []run.Record) {
	for i, name := range m.names(of) {
		all = append(all, run.Record{ID: fmt.Sprintf("%s-%d-%d", of, m.round, i), Job: name, Started: m.at(i), Ended: m.at(i + 1), Outcome: run.Succeeded})
	}
	return all
}

func (m *maker) rows(of string) (all []tick.Tick) {
	for i, name := range m.names(of) {
		all = append(all, tick.Tick{Job: name, At: m.at(i), State: tick.Closed, Outcome: run.Succeeded, RunID: "r"})
	}
	return all
}

func (m *maker) processes() {
	ctx, f := m.Context(), m.s.Fleet
	if f == nil {
		return
	}
	of := lease.NewNonce()
	m.add("report a process", 1, nil, func() error { return f.Report(ctx, fleet.Process{ID: of, Host: "a"}) })
	m.look("list the processes", 100, func() error {
		all, _, err := f.Processes(ctx)
		if err == nil && len(all) == 0 {
			m.Errorf("no process")
		}
		return err
	})
}

func (m *maker) histories() {
	ctx, h := m.Context(), m.s.History
	m.add("append events", m.batch, nil, func() error { return h.Append(ctx, m.events("told")) })
	m.add("append runs", m.batch, nil, func() error { return h.AppendRuns(ctx, m.runs("copied")) })
	m.add("append ticks", m.batch, nil, func() error { return h.AppendTicks(ctx, m.rows("copied")) })
	m.add("keep output", 1, nil, func() error { return h.Output(ctx, m.runs("copied")[0].ID, []byte("x")) })
	m.add("read output", 1, nil, func() error {
		b, err := h.ReadOutput(ctx, m.runs("copied")[0].ID)
		if err == nil && string(b) != "x" {
			m.Errorf("output %q", b)
		}
		return err
	})
	m.add("the latest runs", m.batch, nil, func() error {
		got, err := h.Latest(ctx, m.names("copied"), page)
		if err == nil && slices.ContainsFunc(got, func(r []run.Record) bool { return len(r) != 1 }) {
			m.Errorf("runs: %+v", got)
		}
		return err
	})
	job, from, to := m.names("copied")[1], m.base, m.at(m.batch)
	some := map[string]history.Query{
		"of all": {}, "of all, a window": {From: from, To: to}, "of all, up to": {To: to}, "of all, from": {From: from},
		"of all, after all": {From: to.Add(24 * time.Hour)},
		"of a job":          {Job: job}, "of a job, a window": {Job: job, From: from, To: to},
		"of a job, up to": {Job: job, To: to}, "of a job, from": {Job: job, From: from},
		"of a job, after all": {Job: job, From: to.Add(time.Hour)},
	}
	m.reads("ticks", some, func(q history.Query) (int, error) { r, err := h.Ticks(ctx, q); return len(r), err })
	one := map[string]history.Query{"of one": {RunID: m.runs("copied")[1].ID}, "of one of a job": {RunID: m.runs("copied")[1].ID, Job: job}}
	runs := func(q history.Query) (int, error) { r, err := h.Runs(ctx, q); return len(r), err }
	m.reads("runs", some, runs)
	m.reads("runs", one, runs)
	job = m.names("told")[1]
	one = map[string]history.Query{"of a run": {RunID: "run-of-" + job}, "of a run of a job": {RunID: "run-of-" + job, Job: job}}
	for what, q := range some {
		if q.Job != "" {
			q.Job = job
			some[what] = q
		}
	}
	events := func(q history.Query) (int, error) { r, err := h.Events(ctx, q); return len(r), err }
	m.reads("events", some, events)
	m.reads("events", one, events)
}

func (m *maker) reads(what string, queries map[string]history.Query, read func(history.Query) (int, error)) {
	for of, q := range queries {
		q.Limit = page
		m.look(what+" "+of, page, func() error {
			n, err := read(q)
			if none := strings.HasSuffix(of, "after all"); err == nil && (n == 0) != none {
				m.Errorf("%d rows", n)
			}
			return err
		})
	}
}

// mostSeen is how many rows a step of pruning looks at, of each kind, where they have to stay.
const mostSeen = 1000

func (m *maker) pruning() {
	ctx, h := m.Context(), m.s.History
	m.add("prune outputs", history.Step, func() {
		var runs []run.Record
		for i := range 2 * m.batch {
			id := fmt.Sprintf("printed-%d-%d", m.round, i)
			runs = append(runs, run.Record{ID: id, Job: m.names("printed")[0], Started: m.at(i), Ended: m.at(i + 1), Outcome: run.Succeeded})
			m.need("Output", h.Output(ctx, id, []byte("x")))
		}
		m.need("AppendRuns", h.AppendRuns(ctx, runs))
	}, func() error {
		n, err := h.PruneOutputs(ctx, m.names("printed")[0], m.batch)
		if err == nil && n != m.batch {
			m.Errorf("%d outputs went", n)
		}
		return err
	})
	for i := range 3 {
		m.look(fmt.Sprintf("prune, step %d", i), 4*(history.Step+mostSeen), func() error {
			_, _, err := h.Prune(ctx, m.base.Add(-24*time.Hour))
			return err
		})
	}
}

package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
)

// ErrAmbiguous is returned where what was asked for has several ticks.
var ErrAmbiguous = errors.New("name one")

// pick finds the tick that was asked for; an instant of what was asked for if there is none.
func (g gatherer) pick(w When) error {
	if w.text == "" {
		return g.latest()
	}
	for _, s := range w.spans {
		ticks, n := g.scheduled(s)
		rows, err := g.ticks(history.Query{Job: g.f.Name, From: s.from, To: s.to})
		if err != nil {
			return err
		}
		for _, r := range rows { // of an earlier definition, or of none
			if g.f.Definition == nil || !g.f.Definition.Of(r.At).covers(r.At) {
				if n++; len(ticks) < 5 {
					ticks = append(ticks, r.At)
				}
			}
		}
		if n > 1 {
			return ambiguous(w.text, g.f.Name, ticks, n)
		}
		if n == 1 {
			g.f.At = ticks[0]
			return nil
		}
	}
	if len(w.spans) > 0 {
		g.f.At, g.f.Until = w.spans[0].from, w.spans[0].to
	}
	return nil
}

func ambiguous(text, name string, ticks []time.Time, n int) error {
	slices.SortFunc(ticks, time.Time.Compare)
	var some []string
	for _, t := range ticks {
		some = append(some, t.Format(time.RFC3339))
	}
	count := fmt.Sprint(n)
	if n >= most {
		count = "at least " + count
	}
	return fmt.Errorf("%s has %s ticks of %s: %w, such as %s", text, count, name, ErrAmbiguous, strings.Join(some, ", "))
}

// most bounds the ticks of a span that are counted.
const most = 10_000

// scheduled are the first ticks of the definition in a span, and how many there are.
func (g gatherer) scheduled(s span) (first []time.Time, n int) {
	if g.f.Definition == nil {
		return nil, 0
	}
	for _, d := range g.f.Definition.line() {
		some, m := d.scheduled(s)
		if first, n = append(first, some...), n+m; len(first) > 3 {
			first = first[:3]
		}
	}
	return first, n
}

func (d *Definition) scheduled(s span) (first []time.Time, n int) {
	from := s.from
	if from.Before(d.Since) {
		from = d.Since
	}
	at, ok := d.Set.Next(from.Add(-time.Nanosecond))
	for ; ok && at.Before(s.to) && d.covers(at) && n < most; at, ok = d.Set.Next(at) {
		if n++; len(first) < 3 {
			first = append(first, at)
		}
	}
	return first, n
}

// latest picks the latest tick that was due; else the latest that is recorded, or the next one.
func (g gatherer) latest() error {
	if d := g.f.Definition; d != nil {
		end := g.f.Now
		if !d.Removed.IsZero() && d.Removed.Before(end) {
			end = d.Removed.Add(-time.Nanosecond)
		}
		for _, x := range slices.Backward(d.line()) {
			if at, ok := x.Set.Prev(end); ok && x.covers(at) {
				g.f.At = at
				return nil
			}
		}
	}
	rows, err := g.ticks(history.Query{Job: g.f.Name, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(rows) > 0:
		g.f.At = rows[0].At
	case g.f.Definition != nil:
		if next, ok := g.f.Definition.Set.Next(g.f.Now); ok {
			g.f.At = next
		}
	}
	return nil
}

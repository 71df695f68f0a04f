package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/adhocore/gronx"
	gorhill "github.com/gorhill/cronexpr"
	hashicorp "github.com/hashicorp/cronexpr"
	"github.com/robfig/cron/v3"

	"github.com/dibs-run/dibs/schedule"
)

// A walker answers the first instant after the given one at which an expression is due.
type walker func(after time.Time) (time.Time, error)

// nextCases are the expressions, common ones first. Libraries that do not read one sit that case out.
var nextCases = []struct{ expr, zone string }{
	{"*/5 * * * *", "UTC"},
	{"*/10 9-17 * * MON-FRI", "UTC"},
	{"15 4 1 * *", "UTC"},
	{"0 0 29 2 *", "UTC"},
	{"0 12 * * 1#2", "UTC"},
	{"*/5 * * * *", "America/New_York"},
	{"30 2 * * *", "Europe/Berlin"},
	{"0 0 29 2 *", "Europe/Berlin"},
}

// The walk goes over these years again and again, so that it meets leap years and both changes of
// the clock. robfig's library gives up after five years without a match, so 2100 must not be met.
var (
	walkFrom  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	walkUntil = time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
)

// nexts compares how many ticks per second the libraries compute, each from the one before it, as schedulers do.
func nexts(ctx context.Context, w io.Writer, o options) error {
	for _, c := range nextCases {
		var contestants []contestant
		for _, l := range []struct {
			name  string
			parse func(expr string, zone *time.Location) (walker, error)
		}{{"dibs", dibsWalker}, {"robfig", robfigWalker}, {"gorhill", gorhillWalker}, {"hashicorp", hashicorpWalker}, {"gronx", gronxWalker}} {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				return err
			}
			walk, err := l.parse(c.expr, zone)
			if err != nil {
				fmt.Fprintf(w, "\n%s does not read %s\n", l.name, c.expr)
				continue
			}
			if err := sound(walk, zone); err != nil {
				fmt.Fprintf(w, "\n%s goes astray with %s in %s: %v\n", l.name, c.expr, c.zone, err)
				continue
			}
			contestants = append(contestants, contestant{l.name, func() (float64, error) { return walkRate(ctx, walk, zone, o.turn/5) }})
		}
		t, err := play(o.rounds, contestants)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nnext of %s in %s (median, range of %d rounds; goal: 10 times robfig's)\n", c.expr, c.zone, o.rounds)
		t.print(w, showRate)
	}
	return nil
}

// sound has a library walk through a year: one that goes back where a clock does would walk there for ever.
func sound(walk walker, zone *time.Location) error {
	for at := walkFrom.In(zone); at.Before(walkFrom.AddDate(1, 0, 0)); {
		next, err := walk(at)
		if err != nil {
			return err
		}
		if !next.After(at) {
			return fmt.Errorf("after %s comes %s", at, next)
		}
		at = next
	}
	return nil
}

// walkRate is how many ticks per second a walk computes. The clock is read once in 64 of them.
func walkRate(ctx context.Context, walk walker, zone *time.Location, d time.Duration) (float64, error) {
	var (
		n     int
		began = time.Now()
		start = walkFrom.In(zone)
		at    = start
	)
	for n&63 != 0 || time.Since(began) < d && ctx.Err() == nil {
		next, err := walk(at)
		if err != nil {
			return 0, err
		}
		n++
		if at = next; at.After(walkUntil) {
			at = start
		}
		if n == 1 {
			began = time.Now()
		}
	}
	return float64(n-1) / time.Since(began).Seconds(), context.Cause(ctx)
}

func dibsWalker(expr string, zone *time.Location) (walker, error) {
	s, err := schedule.Parse(expr, zone)
	if err != nil {
		return nil, err
	}
	return func(at time.Time) (time.Time, error) {
		next, ok := s.Next(at)
		if !ok {
			return next, fmt.Errorf("%s: no tick after %s", expr, at)
		}
		return next, nil
	}, nil
}

// robfigWalker reads the zone of the instants that it is given, as its scheduler has it.
func robfigWalker(expr string, _ *time.Location) (walker, error) {
	s, err := cron.ParseStandard(expr)
	if err != nil {
		return nil, err
	}
	return func(at time.Time) (time.Time, error) { return s.Next(at), nil }, nil
}

func gorhillWalker(expr string, _ *time.Location) (walker, error) {
	e, err := gorhill.Parse(expr)
	if err != nil {
		return nil, err
	}
	return func(at time.Time) (time.Time, error) { return e.Next(at), nil }, nil
}

func hashicorpWalker(expr string, _ *time.Location) (walker, error) {
	e, err := hashicorp.Parse(expr)
	if err != nil {
		return nil, err
	}
	return func(at time.Time) (time.Time, error) { return e.Next(at), nil }, nil
}

// gronxWalker parses the expression at every call: it offers no other way.
func gronxWalker(expr string, _ *time.Location) (walker, error) {
	if !gronx.IsValid(expr) {
		return nil, fmt.Errorf("%s is not read", expr)
	}
	return func(at time.Time) (time.Time, error) { return gronx.NextTickAfter(expr, at, false) }, nil
}

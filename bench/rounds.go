package main

import (
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"io"
)

// A contestant takes part in rounds. Its turn returns what is measured.
type contestant struct {
	name string
	turn func() (float64, error)
}

// A table holds what was measured: one row per contestant, one column per round.
type table struct {
	names   []string
	results [][]float64
}

// play lets the contestants take turns, A B C A B C …, so that whatever else the machine does
// meanwhile falls on all of them alike. The first round warms up and does not count.
func play(rounds int, contestants []contestant) (table, error) {
	t := table{results: make([][]float64, len(contestants))}
	for _, c := range contestants {
		t.names = append(t.names, c.name)
	}
	for round := range rounds + 1 {
		for i, c := range contestants {
			v, err := c.turn()
			if err != nil {
				return t, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				t.results[i] = append(t.results[i], v)
			}
		}
	}
	return t, nil
}

// ratio is the median of the first contestant's result over contestant i's, round by round.
func (t table) ratio(i int) float64 {
	ratios := make([]float64, len(t.results[i]))
	for r := range ratios {
		ratios[r] = t.results[0][r] / t.results[i][r]
	}
	return median(ratios)
}

// print writes the medians, and how the first contestant compares with each of the others.
func (t table) print(w io.Writer, show func(float64) string) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for i, name := range t.names {
		fmt.Fprintf(tw, "  %s\t%s\t%s … %s", name, show(median(t.results[i])), show(slices.Min(t.results[i])), show(slices.Max(t.results[i])))
		if i > 0 {
			fmt.Fprintf(tw, "\t%s is %.2f of it", t.names[0], t.ratio(i))
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

func showRate(v float64) string { return fmt.Sprintf("%.0f/s", v) }

func showTime(v float64) string {
	return fmt.Sprintf("%.2f ms", v*float64(time.Second/time.Millisecond))
}

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A chart compares ratios of one kind of work.
type chart struct {
	name, title string
	log         bool      // the scale is logarithmic
	marks       []float64 // the labelled values of the scale, ascending
	bars        []bar
}

// A bar is what several runs measured: from the least to the most. A goal of 0 is none.
type bar struct {
	least, most, goal float64
	label             string
}

func (c *chart) file() string { return "bench-" + c.name + ".svg" }

// parse reads results.txt. Errors name the line.
func parse(text string) ([]*chart, error) {
	var all []*chart
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, rest, ok := strings.Cut(line, ": "); ok {
			c, err := head(name, rest)
			if err != nil {
				return nil, fmt.Errorf("results.txt:%d: %w", n, err)
			}
			all = append(all, c)
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("results.txt:%d: a bar before the first chart", n)
		}
		c := all[len(all)-1]
		b, err := c.bar(line)
		if err != nil {
			return nil, fmt.Errorf("results.txt:%d: %w", n, err)
		}
		c.bars = append(c.bars, b)
	}
	return all, nil
}

// head reads what follows a chart's name: "linear 0 1 2; title".
func head(name, rest string) (*chart, error) {
	scale, title, ok := strings.Cut(rest, "; ")
	words := strings.Fields(scale)
	if !ok || len(words) < 3 || words[0] != "linear" && words[0] != "log" {
		return nil, fmt.Errorf("%q: want linear or log, two marks or more, a semicolon and a title", rest)
	}
	c := &chart{name: name, title: title, log: words[0] == "log"}
	for _, w := range words[1:] {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, err
		}
		if len(c.marks) > 0 && v <= c.marks[len(c.marks)-1] || c.log && v <= 0 {
			return nil, fmt.Errorf("mark %v: want ascending marks, above 0 on a log scale", v)
		}
		c.marks = append(c.marks, v)
	}
	return c, nil
}

// bar reads "least most goal label".
func (c *chart) bar(line string) (bar, error) {
	words := strings.SplitN(line, " ", 4)
	if len(words) < 4 {
		return bar{}, fmt.Errorf("%q: want least, most, goal and label", line)
	}
	b := bar{label: words[3]}
	for i, to := range []*float64{&b.least, &b.most, &b.goal} {
		if i == 2 && words[i] == "-" {
			continue
		}
		v, err := strconv.ParseFloat(words[i], 64)
		if err != nil {
			return bar{}, err
		}
		if v < c.marks[0] || v > c.marks[len(c.marks)-1] {
			return bar{}, fmt.Errorf("%v is not within the chart's scale", v)
		}
		*to = v
	}
	if b.least > b.most {
		return bar{}, fmt.Errorf("least %v is above most %v", b.least, b.most)
	}
	return b, nil
}

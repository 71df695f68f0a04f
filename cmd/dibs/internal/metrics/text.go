package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// A page is what Prometheus reads at once, in its text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/.
type page struct{ gauges []*gauge }

// A gauge is numbers of one name, told apart by the values of labels.
type gauge struct {
	name, help string
	labels     []string
	series     []series
	at         map[string]int // of a series, by its labels as they are written
}

type series struct {
	labels string
	value  float64
}

// gauge adds one to the page.
func (p *page) gauge(name, help string, labels ...string) *gauge {
	g := &gauge{name: name, help: help, labels: labels, at: map[string]int{}}
	p.gauges = append(p.gauges, g)
	return g
}

// set sets the number of these labels, or replaces it.
func (g *gauge) set(value float64, labels ...string) { *g.of(labels) = value }

// add adds to it.
func (g *gauge) add(n float64, labels ...string) { *g.of(labels) += n }

// of is the number of some labels. An empty value is as good as no label.
func (g *gauge) of(values []string) *float64 {
	var b strings.Builder
	for i, v := range values {
		if v == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.labels[i] + `="` + escaped.Replace(strings.ToValidUTF8(v, "�")) + `"`)
	}
	text := b.String()
	i, ok := g.at[text]
	if !ok {
		i = len(g.series)
		g.at[text] = i
		g.series = append(g.series, series{labels: text})
	}
	return &g.series[i].value
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// write writes the gauges that have numbers.
func (p *page) write(to io.Writer) error {
	w := bufio.NewWriter(to) // its error stays, and Flush returns it
	for _, g := range p.gauges {
		if len(g.series) == 0 {
			continue
		}
		_, _ = w.WriteString("# HELP " + g.name + " " + g.help + "\n# TYPE " + g.name + " gauge\n")
		for _, s := range g.series {
			_, _ = w.WriteString(g.name)
			if s.labels != "" {
				_, _ = w.WriteString("{" + s.labels + "}")
			}
			_, _ = w.WriteString(" " + strconv.FormatFloat(s.value, 'f', -1, 64) + "\n")
		}
	}
	return w.Flush()
}

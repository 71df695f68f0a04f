package metrics

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A page is what Prometheus reads at once, in its text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/.
type page struct{ families []*family }

// A family is numbers of one name, told apart by the values of labels.
type family struct {
	name, help, kind string
	labels           []string
	series           []series
	at               map[string]int // of a series, by its labels as they are written
}

type series struct {
	suffix, labels string
	value          float64
}

// gauge adds a family of gauges to the page.
func (p *page) gauge(name, help string, labels ...string) *family {
	return p.family("gauge", name, help, labels)
}

// counter adds a family of counters.
func (p *page) counter(name, help string, labels ...string) *family {
	return p.family("counter", name, help, labels)
}

// histogram adds a family of histograms.
func (p *page) histogram(name, help string, labels ...string) *family {
	return p.family("histogram", name, help, append(labels, "le"))
}

func (p *page) family(kind, name, help string, labels []string) *family {
	f := &family{name: name, help: help, kind: kind, labels: labels, at: map[string]int{}}
	p.families = append(p.families, f)
	return f
}

// set sets the number of these labels, or replaces it.
func (f *family) set(value float64, labels ...string) { *f.of("", labels) = value }

// add adds to it.
func (f *family) add(n float64, labels ...string) { *f.of("", labels) += n }

// observe sets a histogram.
func (f *family) observe(h *histogram, labels ...string) {
	n := 0
	for i, bound := range h.bounds {
		n += h.counts[i]
		*f.of("_bucket", append(slices.Clone(labels), strconv.FormatFloat(bound, 'g', -1, 64))) = float64(n)
	}
	*f.of("_bucket", append(slices.Clone(labels), "+Inf")) = float64(h.n)
	*f.of("_sum", labels) = h.sum
	*f.of("_count", labels) = float64(h.n)
}

// A histogram counts numbers up to each of some bounds.
type histogram struct {
	bounds []float64 // in order
	counts []int     // of what is up to that bound, and above the one before
	n      int
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int, len(bounds))}
}

func (h *histogram) add(v float64) {
	if i, _ := slices.BinarySearch(h.bounds, v); i < len(h.counts) {
		h.counts[i]++
	}
	h.n++
	h.sum += v
}

func (h *histogram) clone() *histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return &c
}

// of is the number of some labels. An empty value is as good as no label.
func (f *family) of(suffix string, values []string) *float64 {
	var b strings.Builder
	for i, v := range values {
		if v == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.labels[i] + `="` + escaped.Replace(strings.ToValidUTF8(v, "�")) + `"`)
	}
	text := b.String()
	i, ok := f.at[suffix+text]
	if !ok {
		i = len(f.series)
		f.at[suffix+text] = i
		f.series = append(f.series, series{suffix: suffix, labels: text})
	}
	return &f.series[i].value
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// write writes the families that have numbers.
func (p *page) write(to io.Writer) error {
	w := bufio.NewWriter(to) // its error stays, and Flush returns it
	for _, f := range p.families {
		if len(f.series) == 0 {
			continue
		}
		_, _ = w.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
		for _, s := range f.series {
			_, _ = w.WriteString(f.name + s.suffix)
			if s.labels != "" {
				_, _ = w.WriteString("{" + s.labels + "}")
			}
			_, _ = w.WriteString(" " + strconv.FormatFloat(s.value, 'f', -1, 64) + "\n")
		}
	}
	return w.Flush()
}

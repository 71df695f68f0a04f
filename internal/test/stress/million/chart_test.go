//go:build linux

package million

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// A chart is how many tasks were done in each step of a round, what processor time that took, and when a worker was
// killed.
type chart struct {
	Title string
	Step  time.Duration
	Took  time.Duration
	Done  []int
	Used  []time.Duration
	Kills []time.Duration
}

// The picture, in its own units: where the axes are, and how large all of it is.
const (
	width, height            = 860, 320
	left, right, top, bottom = 80, 780, 44, 250
)

// rate is in tasks per second. The last step is not a whole one.
func (c *chart) rate(i int) float64 {
	d := min(c.Step, c.Took-time.Duration(i)*c.Step)
	return float64(c.Done[i]) / max(d, time.Millisecond).Seconds()
}

// cost is in ms of processor time per 1,000 tasks; ok is false where too few were done to say so.
func (c *chart) cost(i int) (ms float64, ok bool) {
	mean := 0.0
	for _, n := range c.Done {
		mean += float64(n) / float64(len(c.Done))
	}
	if c.Done[i] == 0 || float64(c.Done[i]) < mean/4 {
		return 0, false
	}
	return c.Used[i].Seconds() * 1e6 / float64(c.Done[i]), true
}

// mean is the rate between two shares of the time, and what 1,000 tasks cost then, in ms.
func (c *chart) mean(from, to float64) (rate, cost float64) {
	n := float64(len(c.Done))
	sum, steps, used := 0.0, 0.0, 0.0
	for i := int(from * n); i < int(to*n); i++ {
		sum, steps, used = sum+float64(c.Done[i]), steps+1, used+c.Used[i].Seconds()
	}
	return sum / max(steps, 1) / c.Step.Seconds(), used * 1e6 / max(sum, 1)
}

func (c *chart) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, left, 24, "start", c.Title, ` font-size="16"`)
	c.time(&b)
	rates, costs := make([]float64, len(c.Done)), make([]float64, len(c.Done))
	for i := range c.Done {
		rates[i], costs[i] = c.rate(i), math.NaN()
		if ms, ok := c.cost(i); ok {
			costs[i] = ms
		}
	}
	c.line(&b, axis{at: right + 8, anchor: "start", name: "ms of CPU per 1,000 tasks", nameAt: width - 18, color: "#b8b8b8"}, costs)
	c.line(&b, axis{at: left - 8, anchor: "end", name: "tasks done per second", nameAt: 18, color: "#1f5fa8", grid: true}, rates)
	var ticks strings.Builder
	for _, k := range c.Kills {
		fmt.Fprintf(&ticks, "M%.1f %dv7", c.x(k), bottom)
	}
	fmt.Fprintf(&b, `<path d="%s" stroke="#c0392b"/>`+"\n", ticks.String())
	text(&b, left, height-10, "start", fmt.Sprintf("blue: tasks done; grey: what they cost; red: a worker is killed (%d times). Each point is the mean of %v.", len(c.Kills), c.Step), ` fill="#666"`)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// An axis is that of one line.
type axis struct {
	at, nameAt          int
	anchor, name, color string
	grid                bool
}

// line draws values, but for those that are not numbers, and their axis.
func (c *chart) line(b *bytes.Buffer, a axis, values []float64) {
	most := 1.0
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	step := round125(most / 4)
	top125 := step * math.Ceil(most/step)
	y := func(v float64) float64 { return bottom - v/top125*(bottom-top) }
	for v := 0.0; v <= top125; v += step {
		if a.grid {
			fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, y(v), right)
		}
		text(b, float64(a.at), y(v)+4, a.anchor, thousands(int(v)), "")
	}
	text(b, float64(a.nameAt), (top+bottom)/2, "middle", a.name, fmt.Sprintf(` transform="rotate(-90 %d %d)"`, a.nameAt, (top+bottom)/2))
	var path strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, c.x(min(time.Duration(i)*c.Step+c.Step/2, c.Took)), y(v))
		pen = "L"
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path.String(), a.color)
}

// time draws the axis of time.
func (c *chart) time(b *bytes.Buffer) {
	unit, name := time.Second, "seconds"
	if c.Took > 3*time.Minute {
		unit, name = time.Minute, "minutes"
	}
	step := round125(float64(c.Took) / float64(unit) / 8)
	for v := 0.0; v*float64(unit) <= float64(c.Took); v += step {
		text(b, c.x(time.Duration(v*float64(unit))), bottom+24, "middle", fmt.Sprint(math.Round(v*10)/10), "")
	}
	text(b, (left+right)/2, bottom+42, "middle", "time in "+name, "")
}

func (c *chart) x(at time.Duration) float64 {
	return left + float64(at)/float64(c.Took)*(right-left)
}

func text(b *bytes.Buffer, x, y float64, anchor, s, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>`, x, y, anchor, more)
	_ = xml.EscapeText(b, []byte(s)) // a Buffer takes everything
	b.WriteString("</text>\n")
}

// round125 is the next larger of 1, 2, 5, 10, 20, 50, …
func round125(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(max(v, 0.1))))
	for _, f := range []float64{1, 2, 5} {
		if f*p >= v {
			return f * p
		}
	}
	return 10 * p
}

// thousands writes 1000000 as 1,000,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func TestAChartIsWhole(t *testing.T) {
	c := &chart{Title: "a < b", Step: time.Second, Took: 10500 * time.Millisecond, Done: []int{0, 5, 1000, 1000, 900, 0, 1000, 800, 1200, 1000, 700},
		Kills: []time.Duration{3 * time.Second}}
	c.Used = make([]time.Duration, len(c.Done))
	c.Used[2] = 100 * time.Millisecond
	if rate, cost := c.mean(0.2, 0.4); rate != 1000 || cost != 50 {
		t.Errorf("the means of the third and fourth second are %v a second, and %v ms per 1,000", rate, cost)
	}
	if r := c.rate(10); r != 1400 {
		t.Errorf("700 in the last half second are %v a second", r)
	}
	d := xml.NewDecoder(bytes.NewReader(c.svg()))
	var words []string
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.CharData); ok {
			words = append(words, strings.TrimSpace(string(s)))
		}
	}
	for _, want := range []string{"a < b", "tasks done per second", "ms of CPU per 1,000 tasks", "time in seconds", "1,500"} {
		if !slices.Contains(words, want) {
			t.Errorf("%q is not in it: %q", want, words)
		}
	}
}

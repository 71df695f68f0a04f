package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// The picture, in its own units.
const (
	width, left, right = 860, 290, 700
	top, row           = 56, 30
)

// svg draws a row for each bar: solid up to the least that was measured, light up to the most, a red line at the
// goal. The dark vertical line is 1, where both programs are equally fast.
func (c *chart) svg() []byte {
	bottom := top + row*len(c.bars)
	height := bottom + 50
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, 20, 28, "start", c.title, ` font-size="16"`)
	for _, v := range c.marks {
		color := "#ddd"
		if v == 1 {
			color = "#444"
		}
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="%s"/>`+"\n", c.x(v), top-6, bottom, color)
		text(&b, c.x(v), float64(bottom+18), "middle", number(v), "")
	}
	for i, r := range c.bars {
		c.row(&b, r, top+i*row)
	}
	text(&b, 20, float64(height-10), "start", "blue: the least measured; light: up to the most; red: the goal", ` fill="#666"`)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// row draws a bar whose upper edge is y.
func (c *chart) row(b *bytes.Buffer, r bar, y int) {
	text(b, left-12, float64(y)+17, "end", r.label, "")
	zero := c.x(c.marks[0])
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="18" fill="#1f5fa8"/>`+"\n", zero, y+3, c.x(r.least)-zero)
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="18" fill="#a9c6e8"/>`+"\n", c.x(r.least), y+3, c.x(r.most)-c.x(r.least))
	said := number(r.least)
	if r.most != r.least {
		said += "–" + number(r.most)
	}
	if r.goal > 0 {
		fmt.Fprintf(b, `<path d="M%.1f %dv24" stroke="#c0392b" stroke-width="2"/>`+"\n", c.x(r.goal), y)
		said += ", goal " + number(r.goal)
	}
	text(b, right+12, float64(y)+17, "start", said, "")
}

// x is where a value is on the scale.
func (c *chart) x(v float64) float64 {
	at := func(v float64) float64 { return v }
	if c.log {
		at = math.Log
	}
	first, last := at(c.marks[0]), at(c.marks[len(c.marks)-1])
	return left + (at(v)-first)/(last-first)*(right-left)
}

func text(b *bytes.Buffer, x, y float64, anchor, s, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/output"
)

// narrowest is how far a column is cut on a terminal that is not wide enough for all of it.
const narrowest = 10

// columnGap stands between columns.
const columnGap = 2

// table writes rows under a header. What is in a cell cannot look like another cell or row, nor speak to the terminal.
// On a terminal it fits: columns named in spare are left out, in their order, and then the last column is cut, and
// then whichever is the widest. Elsewhere nothing is left out.
func (e env) table(header string, rows [][]string, spare ...string) error {
	t := tableOf(header, rows)
	for e.out.width > 0 && t.width() > e.out.width && len(spare) > 0 {
		t.drop(spare[0])
		spare = spare[1:]
	}
	if e.out.width > 0 {
		t.fit(e.out.width)
	}
	w := e.stdout
	if e.out.color {
		w = output.AsIs(w) // each cell is clean already
	}
	_, err := w.Write([]byte(t.text(e.out.color)))
	return err
}

// A grid is a header and rows, each cell printable.
type grid struct {
	rows   [][]string // the header is the first
	widths []int
}

func tableOf(header string, rows [][]string) *grid {
	t := &grid{rows: [][]string{strings.Fields(header)}}
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = printable(c)
		}
		t.rows = append(t.rows, cells)
	}
	t.measure()
	return t
}

func (t *grid) measure() {
	t.widths = make([]int, len(t.rows[0]))
	for _, r := range t.rows {
		for i, c := range r {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
		}
	}
}

func (t *grid) width() int {
	all := columnGap * (len(t.widths) - 1)
	for _, w := range t.widths {
		all += w
	}
	return all
}

func (t *grid) drop(column string) {
	i := slices.Index(t.rows[0], column)
	for n, r := range t.rows {
		t.rows[n] = slices.Delete(r, i, i+1)
	}
	t.measure()
}

// fit cuts columns until no line is longer than a terminal's. One that is narrower still gets longer lines.
func (t *grid) fit(most int) {
	for over := t.width() - most; over > 0; over = t.width() - most {
		widest := len(t.widths) - 1
		if t.widths[widest] <= narrowest {
			widest = slices.Index(t.widths, slices.Max(t.widths))
		}
		to := max(t.widths[widest]-over, narrowest)
		if to >= t.widths[widest] {
			return
		}
		t.widths[widest] = to
	}
}

// text is the table, each line without blanks at its end.
func (t *grid) text(color bool) string {
	var b strings.Builder
	for n, r := range t.rows {
		var line strings.Builder
		for i, c := range r {
			cell := cutTo(c, t.widths[i])
			blanks := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+columnGap)
			if paint := colors()[firstWord(c)]; color && n > 0 && paint != "" && painted(t.rows[0][i]) {
				cell = paint + cell + "\x1b[0m"
			}
			line.WriteString(cell + blanks)
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	return b.String()
}

// cutTo is s in n columns at most, with … where something is missing.
func cutTo(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// painted are the columns whose words have colours.
func painted(column string) bool { return column == "OUTCOME" || column == "STATE" }

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// colors are those of outcomes and states: green went well, red did not, yellow did not happen.
var colors = sync.OnceValue(func() map[string]string {
	const green, red, yellow, cyan = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m"
	all := map[string]string{}
	for color, words := range map[string]string{
		green:  "succeeded",
		red:    "failed timed_out lost crashed missed unavailable discarded",
		yellow: "skipped paused replaced canceled blocked retryable broken",
		cyan:   "running held started claimed",
	} {
		for word := range strings.FieldsSeq(words) {
			all[word] = color
		}
	}
	return all
})

package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Line int    // of the opening fence, from 1
	Kind string // the word behind the fence, or "" for none
	Note string // what a test's comment in the line before it says
	Text string // with the last line's end
}

var (
	fence = regexp.MustCompile("^(```+)([A-Za-z0-9-]*)$")
	note  = regexp.MustCompile(`^<!-- test: (.*) -->$`)
)

// Blocks reads the fenced blocks of a page. A fence that does not end is an error, as is a comment for a test with no
// block behind it.
func Blocks(page string) (all []Block, err error) {
	var open *Block
	var marks, said string
	n := 0
	for line := range strings.Lines(page) {
		n++
		line = strings.TrimSuffix(line, "\n")
		m := fence.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case open != nil && m != nil && m[1] == marks && m[2] == "":
			all, open = append(all, *open), nil
		case open != nil:
			open.Text += line + "\n"
		case m != nil:
			open, marks, said = &Block{Line: n, Kind: m[2], Note: said}, m[1], ""
		case said != "":
			return nil, fmt.Errorf("line %d: no block follows the comment %q", n, said)
		default:
			if c := note.FindStringSubmatch(line); c != nil {
				said = c[1]
			}
		}
	}
	if open != nil || said != "" {
		return nil, fmt.Errorf("the page ends within a block, or behind the comment %q", said)
	}
	return all, nil
}

// Prose is a page without its fenced blocks, line by line.
func Prose(page string) string {
	var b strings.Builder
	marks := ""
	for line := range strings.Lines(page) {
		m := fence.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case marks == "" && m != nil:
			marks = m[1]
		case marks != "" && m != nil && m[1] == marks && m[2] == "":
			marks = ""
		case marks == "":
			b.WriteString(line)
			continue
		}
		b.WriteString("\n")
	}
	return b.String()
}

package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// A part is a foreign line, or a block.
type part struct {
	n   int    // the number of its first line, from 1; 0 if it is new
	raw string // the foreign line with its end
	*block
}

// A block is an entry of dibs: three pieces of text, as they are there.
type block struct {
	mark
	opening, body, closing string
}

func (p part) text() string {
	if p.block != nil {
		return p.opening + p.body + p.closing
	}
	return p.raw
}

// A table is a crontab in its parts. Together they are the text, byte for byte.
type table []part

func (t table) String() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text())
	}
	return b.String()
}

// parse reads a crontab. It is an error only if it cannot be told which lines are dibs's.
func parse(text string) (table, error) {
	var t table
	var open *part
	seen := map[deploy.ID]int{}
	for i, raw := range splitLines(text) {
		n := i + 1
		if rest, ok := isMark(raw, markBegin); ok {
			p, err := begin(n, raw, rest, open, seen)
			if err != nil {
				return nil, err
			}
			open = p
			continue
		}
		rest, ok := isMark(raw, markEnd)
		switch {
		case ok && open == nil:
			return nil, fmt.Errorf("line %d: a block of dibs ends that did not begin: delete the line, or restore the line with its mark (%s…) above its entry", n, markBegin)
		case ok && rest != open.id.String():
			return nil, unended(open)
		case ok:
			open.closing = raw
			t, open = append(t, *open), nil
		case open != nil:
			open.body += raw
		default:
			t = append(t, part{n: n, raw: raw})
		}
	}
	if open != nil {
		return nil, unended(open)
	}
	return t, nil
}

func begin(n int, raw, rest string, open *part, seen map[deploy.ID]int) (*part, error) {
	if open != nil {
		return nil, unended(open)
	}
	m, err := readMark(rest)
	if err != nil {
		return nil, fmt.Errorf("line %d: a mark of dibs that cannot be read: %w; restore it, or delete the mark to keep the entry as your own", n, err)
	}
	if first, twice := seen[m.id]; twice {
		return nil, fmt.Errorf("lines %d and %d are both marked as %s: delete one of the two blocks", first, n, m.id)
	}
	seen[m.id] = n
	return &part{n: n, block: &block{mark: m, opening: raw}}, nil
}

func unended(p *part) error {
	return fmt.Errorf("line %d: the block of %s has no end, so it is not known which lines below are dibs's: put %q after its last line, or delete the mark to keep the lines as your own", p.n, p.id, bare(endOf(p.id)))
}

func (t table) find(id deploy.ID) int {
	return slices.IndexFunc(t, func(p part) bool { return p.block != nil && p.id == id })
}

// edit carries out one edit on a table of its own.
func (t table) edit(e deploy.Edit) (table, error) {
	t = slices.Clone(t)
	switch e.Op {
	case deploy.Put:
		return t.put(e)
	case deploy.Take:
		return t.take(e)
	}
	i := t.find(e.ID)
	if i < 0 {
		return nil, fmt.Errorf("%s is not there", e.ID)
	}
	if e.Op == deploy.Unmark {
		t = t.unglue(i, false)
		return slices.Replace(t, i, i+1, part{raw: t[i].body}), nil
	}
	t = t.unglue(i, true)
	return slices.Delete(t, i, i+1), nil
}

func made(e deploy.Edit) part {
	m := mark{id: e.ID, spec: e.Spec, text: deploy.TextHash(e.Text)}
	return part{block: &block{mark: m, opening: m.String(), body: e.Text, closing: endOf(e.ID)}}
}

func (t table) put(e deploy.Edit) (table, error) {
	p := made(e)
	if e.Old == nil {
		return t.add(p), nil
	}
	i := t.find(*e.Old)
	if i < 0 {
		return nil, fmt.Errorf("%s is not there", *e.Old)
	}
	p.eof = t[i].eof
	p.opening = p.mark.String()
	t[i] = p
	return t, nil
}

// add puts a block behind all else.
func (t table) add(p part) table {
	if n := len(t); n > 0 && !strings.HasSuffix(t[n-1].text(), "\n") {
		last := t[n-1]
		if last.block != nil { // its closing comment: ours
			own := *last.block
			own.closing += "\n"
			last.block = &own
		} else {
			p.eof = deploy.TextHash(last.raw)[:16]
			p.opening = p.mark.String()
			last.raw += "\n"
		}
		t[n-1] = last
	}
	return append(t, p)
}

// unglue gives the foreign line above block i its missing line end back, if nothing but that block and the end of
// the table follows and the line is still the same. If another block follows, that one gets the note.
func (t table) unglue(i int, removed bool) table {
	eof := t[i].eof
	if eof == "" || i == 0 || t[i-1].block != nil || deploy.TextHash(bare(t[i-1].raw))[:16] != eof {
		return t
	}
	switch next := i + 1; {
	case !removed:
	case next == len(t):
		t[i-1].raw = bare(t[i-1].raw)
	case t[next].block != nil:
		own := *t[next].block
		own.eof = eof
		own.opening = own.mark.String()
		t[next].block = &own
	}
	return t
}

var errGone = errors.New("the entry to adopt is not there")

// take puts a block in the place of foreign lines.
func (t table) take(e deploy.Edit) (table, error) {
	if len(e.Refs) == 0 {
		return nil, errGone
	}
	var out table
	left := len(e.Refs)
	for _, p := range t {
		if p.block != nil || p.n == 0 || !slices.Contains(e.Refs, p.n) {
			out = append(out, p)
			continue
		}
		if left == len(e.Refs) {
			out = append(out, made(e))
		}
		left--
	}
	if left != 0 {
		return nil, errGone
	}
	return out, nil
}

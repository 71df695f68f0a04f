package mysql

import (
	"embed"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the named sections of sql/*.sql, without comments, read when first needed.
var statements = sync.OnceValue(load)

func load() map[string]string {
	found := map[string]string{}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range files {
		text, err := sqlFiles.ReadFile("sql/" + f.Name())
		if err != nil {
			panic(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if after, ok := strings.CutPrefix(line, "-- name: "); ok {
				name = after
			} else if line != "" && !strings.HasPrefix(line, "--") {
				found[name] += line + " "
			}
		}
	}
	return found
}

// list is an argument that stands for (a, b, c); rows is one for (a, b), (c, d); spots is one for the ticks
// with these jobs and instants, as (job = a AND at = b) OR (job = c AND at = d): MariaDB looks through a whole
// namespace, and locks it, for (job, at) IN (…).
//
// A piece is a section within a statement.
type (
	list  []any
	rows  [][]any
	piece struct {
		name string
		args []any
	}
)

func with(name string, args ...any) piece { return piece{name, args} }

// A packet is the text of one operation. It is sent as a single COM_QUERY, so the server has all of it, COMMIT
// included, or nothing: no half of it can wait in a socket (rule L1).
//
// Only a step that takes in more than mostBytes is sent in parts, on one connection that has its transaction open:
// the last part has the COMMIT.
type packet struct {
	text strings.Builder
	args []any
	cuts []cut // where parts end
	size int   // of the last part, as far as fit was told
	long bool  // it has a list for which MariaDB would not use an index
}

// longList is how many values a list has at least for which MariaDB does not look each up in the index: it makes a
// temporary table of them, and joins all rows of the namespace with it (in_predicate_conversion_threshold).
const longList = 1000

type cut struct{ text, args int }

// fit begins a new part where n more bytes are too many for the last one.
func (p *packet) fit(n int) {
	if p.size > 0 && p.size+n > mostBytes {
		p.cuts = append(p.cuts, cut{p.text.Len(), len(p.args)})
		p.size = 0
	}
	p.size += n
}

// parts are what is sent one after the other.
func (p *packet) parts() iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		text, from := p.text.String(), cut{}
		ends := append(slices.Clip(p.cuts), cut{len(text), len(p.args)})
		for i, to := range ends {
			part := text[from.text:to.text]
			if p.long && i == 0 {
				part = statements()["use-index"] + part
			}
			if p.long && i == len(ends)-1 {
				part = strings.TrimRight(part, "; ") + "; " + statements()["as-before"]
			}
			if !yield(part, p.args[from.args:to.args]) {
				return
			}
			from = to
		}
	}
}

// add appends the section name of the SQL files. Each ? takes one argument; a list or rows takes
// as many as it has, and a piece another section.
func (p *packet) add(name string, args ...any) *packet {
	text, known := statements()[name]
	if !known || strings.Count(text, "?") != len(args) {
		panic(fmt.Sprintf("mysql: %d arguments do not fit statement %q", len(args), name))
	}
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		p.text.WriteString(before)
		p.argument(arg)
		text = after
	}
	p.text.WriteString(text)
	return p
}

func (p *packet) argument(arg any) {
	switch arg := arg.(type) {
	case list:
		p.long = p.long || len(arg) >= longList
		p.marks(len(arg))
		p.args = append(p.args, arg...)
	case rows:
		for i, row := range arg {
			if i > 0 {
				p.text.WriteByte(',')
			}
			p.text.WriteByte('(')
			p.marks(len(row))
			p.text.WriteByte(')')
			p.args = append(p.args, row...)
		}
	case spots:
		for i, s := range arg {
			if i > 0 {
				p.text.WriteString(" OR ")
			}
			p.text.WriteString("(job = ? AND at = ?)")
			p.args = append(p.args, []byte(s.job), s.at)
		}
	case piece:
		p.add(arg.name, arg.args...)
	default:
		p.marks(1)
		p.args = append(p.args, arg)
	}
}

func (p *packet) marks(n int) {
	p.text.WriteByte('?')
	for range n - 1 {
		p.text.WriteString(",?")
	}
}

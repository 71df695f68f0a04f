package mutants

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Mutant is one bug of the set.
type Mutant struct {
	Name     string // its path below the set, without the suffix
	Bug      string
	Tests    []Tests
	Survives string // why no test finds it; empty: one does
	Edits    []Edit
}

// Package is the folder of the package that the bug harms.
func (m Mutant) Package() string { return path.Dir(m.Name) }

// Tests are some of a package.
type Tests struct {
	Package string // as go test takes it
	Run     string // a regular expression; empty: all of them
}

// An Edit replaces lines of one file.
type Edit struct {
	File     string // from the module's root
	Old, New []string
}

const suffix = ".mutant"

// Load reads a set, sorted by name.
func Load(set fs.FS) (all []Mutant, err error) {
	err = fs.WalkDir(set, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasSuffix(name, suffix) {
			return fmt.Errorf("%s: not a %s file", name, suffix)
		}
		b, err := fs.ReadFile(set, name)
		if err != nil {
			return err
		}
		m, err := parse(strings.TrimSuffix(name, suffix), string(b))
		all = append(all, m)
		return err
	})
	return all, err
}

func parse(name, text string) (Mutant, error) {
	m := Mutant{Name: name}
	head, body, _ := strings.Cut(text, "\n\n")
	m.Bug = strings.Join(strings.Fields(head), " ")
	for i, line := range strings.Split(strings.TrimRight(body, "\n"), "\n") {
		if err := m.line(line); err != nil {
			return m, fmt.Errorf("%s: line %d after the first empty one: %w", name, i+1, err)
		}
	}
	if m.Bug == "" || len(m.Tests) == 0 || len(m.Edits) == 0 {
		return m, fmt.Errorf("%s: it needs what the bug is, a test line and a file line", name)
	}
	return m, nil
}

func (m *Mutant) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return nil
	case strings.ContainsAny(line[:1], "-+ "):
		if len(m.Edits) == 0 {
			return fmt.Errorf("%q stands before the first file line", line)
		}
		m.Edits[len(m.Edits)-1].add(line[0], line[1:])
	case word == "test":
		pkg, run, _ := strings.Cut(rest, " ")
		m.Tests = append(m.Tests, Tests{pkg, run})
	case word == "survives":
		m.Survives = rest
	case word == "file":
		m.Edits = append(m.Edits, Edit{File: rest})
	default:
		return fmt.Errorf("%q begins with none of test, survives, file, -, + and a space", line)
	}
	return nil
}

func (e *Edit) add(kind byte, line string) {
	if kind != '+' {
		e.Old = append(e.Old, strings.TrimSpace(line))
	}
	if kind != '-' {
		e.New = append(e.New, line)
	}
}

// Apply returns the files that the bug changes, as they are with it, by their paths from root.
func (m Mutant) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("%s does not apply: %w", m.Name, err)
			}
			text = string(b)
		}
		mutated, err := e.apply(text)
		if err != nil {
			return nil, fmt.Errorf("%s does not apply: %s: %w", m.Name, e.File, err)
		}
		changed[e.File] = mutated
	}
	return changed, nil
}

func (e Edit) apply(text string) (string, error) {
	lines := strings.Split(text, "\n")
	at := e.places(lines)
	if len(at) != 1 {
		return "", fmt.Errorf("its old lines are there %d times, and must be once:\n\t%s", len(at), strings.Join(e.Old, "\n\t"))
	}
	return strings.Join(slices.Replace(lines, at[0], at[0]+len(e.Old), e.New...), "\n"), nil
}

// places are where the old lines begin.
func (e Edit) places(lines []string) (at []int) {
	for i := 0; len(e.Old) > 0 && i+len(e.Old) <= len(lines); i++ {
		if slices.EqualFunc(lines[i:i+len(e.Old)], e.Old, func(line, old string) bool { return strings.TrimSpace(line) == old }) {
			at = append(at, i)
		}
	}
	return at
}

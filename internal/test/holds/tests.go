package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A held is one test and what it holds.
type held struct {
	file  string // from the repository's root, with slashes
	line  int    // of the marker
	name  string // of the test function, or of the function or string that a case is known by
	about string // what it checks, in one line
	holds []string
}

const marker = "Holds: "

var oneNumber = regexp.MustCompile(`^(\d+|[LTHQ]\d+)$`)

// readTests returns the tests of the repository that carry the marker, sorted by file and line.
func readTests(root string) ([]held, error) {
	var all []held
	var faults []error
	err := filepath.WalkDir(root, func(full string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && full != root && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		}
		read := readerOf(full)
		if e.IsDir() || read == nil {
			return nil
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(full)
		if err != nil || !bytes.Contains(text, []byte(marker)) {
			return err
		}
		tests, err := read(filepath.ToSlash(rel), text)
		all, faults = append(all, tests...), append(faults, err)
		return nil
	})
	slices.SortStableFunc(all, func(a, b held) int { return strings.Compare(a.file, b.file) })
	return all, errors.Join(err, errors.Join(faults...))
}

// readerOf returns what reads the markers of a file, or nil if a file of its name has none.
func readerOf(file string) func(file string, text []byte) ([]held, error) {
	switch {
	case strings.HasSuffix(file, "_test.go"), strings.HasSuffix(file, ".go") && path.Base(path.Dir(filepath.ToSlash(file))) == "storetest":
		return readGo
	case strings.HasSuffix(file, ".txtar"):
		return readScript
	}
	return nil
}

// readScript reads a script of the command line: its marker, and what it says of itself in the next comment.
func readScript(file string, text []byte) ([]held, error) {
	var found []held
	var faults []error
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words, comment := strings.CutPrefix(strings.TrimSpace(line), "# ")
		switch {
		case comment && strings.HasPrefix(words, marker):
			numbers, err := parseMarker(words)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %w", file, n, err))
			}
			found = append(found, held{file: file, line: n, name: path.Base(file), holds: numbers})
		case comment && len(found) > 0 && found[0].about == "":
			found[0].about = words
		}
	}
	return found, errors.Join(faults...)
}

// readGo reads a Go file: markers in comments of functions, and above cases.
func readGo(file string, text []byte) ([]held, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []held
	var faults []error
	for _, group := range tree.Comments {
		for _, c := range group.List {
			words, ok := strings.CutPrefix(c.Text, "// "+marker)
			if !ok {
				continue
			}
			line := files.Position(c.Pos()).Line
			numbers, err := parseMarker(marker + words)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %w", file, line, err))
				continue
			}
			name, about := subject(files, tree, group)
			if name == "" {
				faults = append(faults, fmt.Errorf("%s:%d: this marker belongs to no test: put it at the end of a test function's comment, or just above a case that has a name", file, line))
				continue
			}
			found = append(found, held{file, line, name, about, numbers})
		}
	}
	return found, errors.Join(faults...)
}

// parseMarker returns the numbers of "Holds: promises 1, 3, L9.".
func parseMarker(s string) ([]string, error) {
	list, ended := strings.CutSuffix(strings.TrimPrefix(s, marker), ".")
	promises, hasPromises := strings.CutPrefix(list, "promises ")
	if !hasPromises {
		promises, hasPromises = strings.CutPrefix(list, "promise ")
	}
	numbers := strings.Split(promises, ", ")
	if _, err := strconv.Atoi(numbers[0]); !ended || (err == nil) != hasPromises {
		return nil, badMarker(s)
	}
	for i, n := range numbers {
		if !oneNumber.MatchString(n) || slices.Contains(numbers[:i], n) {
			return nil, badMarker(s)
		}
	}
	return numbers, nil
}

func badMarker(s string) error {
	return fmt.Errorf("%q cannot be read: write it like %q, %q or %q, each number once", s, "Holds: promise 1.", "Holds: promises 1, 3, L9.", "Holds: L9.")
}

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed head.txt
var head []byte

// check returns what is wrong between the pages and the tests.
func check(promises, rules []number, tests []held) error {
	var faults []error
	known := map[string]bool{}
	for _, n := range slices.Concat(promises, rules) {
		if known[n.id] {
			faults = append(faults, fmt.Errorf("the pages have %s twice", n.id))
		}
		known[n.id] = true
	}
	for _, t := range tests {
		for _, id := range t.holds {
			if !known[id] {
				faults = append(faults, fmt.Errorf("%s:%d: docs/why/promises.md and docs/why/rules.md have no %s", t.file, t.line, id))
			}
		}
	}
	for _, p := range promises {
		if !p.unbuilt && len(of(p, tests)) == 0 {
			faults = append(faults, fmt.Errorf("no test holds promise %s (%s): mark one with %q, or say *Not built yet.* behind its title in docs/why/promises.md", p.id, p.title, "Holds: promise "+p.id+"."))
		}
	}
	return errors.Join(faults...)
}

// of returns the tests that hold a number.
func of(n number, tests []held) (all []held) {
	for _, t := range tests {
		if slices.Contains(t.holds, n.id) {
			all = append(all, t)
		}
	}
	return all
}

// page is docs/why/held.md.
func page(promises, rules []number, tests []held) []byte {
	var b bytes.Buffer
	b.Write(head)
	b.WriteString("\n## Promises\n")
	for _, p := range promises {
		b.WriteString(table(p.id+". "+p.title, of(p, tests)))
	}
	b.WriteString("\n## Rules\n")
	for _, r := range rules {
		if held := of(r, tests); len(held) > 0 {
			b.WriteString(table(r.id+" "+r.title, held))
		}
	}
	return b.Bytes()
}

// table lists tests under a title. A link has no line, so that the page outlives most changes of a file.
func table(title string, tests []held) string {
	if len(tests) == 0 {
		return "\n### " + title + "\n\nNot built yet.\n"
	}
	var b strings.Builder
	b.WriteString("\n### " + title + "\n\n| package | test | what it checks |\n|---|---|---|\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "| `%s` | [%s](../../%s) | %s |\n", path.Dir(t.file), cell(t.name), t.file, cell(t.about))
	}
	return b.String()
}

// cell keeps text within a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What somebody reads of the tests is what the tests say, each number that a test names exists, and every promise
// that is built has a test.
func TestTheCommittedPageIsWhatTheTestsSay(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "why", "held.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/why/held.md is not what the tests say: run make held, and commit what it writes")
	}
}

// promises is a page with a promise that is built and one that is not; rules has one rule.
const (
	promises = "# P\n\n**1. One holder.** At most one.\n\n**2. Fair queues.** *Not built yet.* First come.\n"
	rules    = "# R\n\n**L9 Identity.** Words.\n"
)

// repository writes a small repository of these files, with the two pages.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"docs/why/promises.md": promises, "docs/why/rules.md": rules}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// mark is a marker's line, which as plain text would be one of this file's own.
func mark(numbers string) string { return "// " + marker + numbers + "\n" }

const one = "\nfunc TestOneHolder(t *testing.T) {}\n"

// A marker is found wherever a test can carry one, with the name and the line by which somebody knows that test.
func TestEachKindOfTestIsListed(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"a function": {
			"lease/a_test.go", "package lease\n\n// Rule L9: two ask; one gets it. More words.\n" + mark("promise 1.") + one[1:],
			"| `lease` | [TestOneHolder](../../lease/a_test.go) | Two ask |",
		},
		"a function without words": {
			"lease/a_test.go", "package lease\n\n" + mark("promise 1.") + one[1:],
			"| `lease` | [TestOneHolder](../../lease/a_test.go) | One holder |",
		},
		"a function whose words begin with its name": {
			"lease/a_test.go", "package lease\n\n// TestOneHolder is the guard: two ask. More.\n" + mark("promise 1.") + one[1:],
			"| `lease` | [TestOneHolder](../../lease/a_test.go) | Two ask |",
		},
		"a function whose words tell of a fault": {
			"lease/a_test.go", "package lease\n\n// Fault: two had it. More.\n" + mark("promise 1.") + one[1:],
			"| `lease` | [TestOneHolder](../../lease/a_test.go) | One holder |",
		},
		"a case of the suite": {
			"store/storetest/a.go", "package storetest\n\nvar cases = []promise{\n\t{\"zero\", zero},\n\t" + mark("promise 1.") + "\t{\"two ask | one gets it\", twoAsk},\n}\n",
			`| ` + "`store/storetest`" + ` | [twoAsk](../../store/storetest/a.go) | two ask \| one gets it |`,
		},
		"a case whose function is wrapped": {
			"store/storetest/a.go", "package storetest\n\nfunc all() []promise {\n\treturn []promise{\n\t\t" + mark("promise 1.") + "\t\t{\"many ask\", with(manyAsk)},\n\t}\n}\n",
			"| `store/storetest` | [manyAsk](../../store/storetest/a.go) | many ask |",
		},
		"a case of a table": {
			"job/a_test.go", "package job\n\nfunc TestTable(t *testing.T) {\n\tfor range []row{\n\t\t" + mark("promise 1.") + "\t\t{\"first\", 1, 2},\n\t} {\n\t}\n}\n",
			"| `job` | [TestTable](../../job/a_test.go) | first |",
		},
		"a script": {
			"cli/testdata/a.txtar", "# Holds: promise 1.\n# what it shows\ndibs run\n",
			"| `cli/testdata` | [a.txtar](../../cli/testdata/a.txtar) | what it shows |",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := generate(repository(t, map[string]string{c.file: c.text}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(got), "### 1. One holder\n") || !strings.Contains(string(got), c.want+"\n") {
				t.Errorf("the page lacks %q:\n%s", c.want, got[len(head):])
			}
			if !strings.Contains(string(got), "### 2. Fair queues\n\nNot built yet.\n") {
				t.Errorf("the page does not say that promise 2 is not built:\n%s", got[len(head):])
			}
		})
	}
}

// A rule has its tests under its own number, and a test of several numbers is under each.
func TestATestOfSeveralNumbersIsUnderEach(t *testing.T) {
	got, err := generate(repository(t, map[string]string{"lease/a_test.go": "package lease\n\n" + mark("promises 1, 2, L9.") + one[1:]}))
	if err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"### 1. One holder", "### 2. Fair queues", "### L9 Identity"} {
		_, below, _ := strings.Cut(string(got), title+"\n")
		section, _, _ := strings.Cut(below, "\n### ")
		if !strings.Contains(section, "[TestOneHolder]") {
			t.Errorf("the test is not under %s:\n%s", title, got[len(head):])
		}
	}
}

// What would make the page untrue is refused, with the file and the line.
func TestWhatIsUntrueIsRefused(t *testing.T) {
	held := "package lease\n\n" + mark("promise 1.") + one[1:]
	for name, c := range map[string]struct{ text, want string }{
		"no test of a promise":        {"package lease\n", "no test holds promise 1 (One holder)"},
		"a promise that is not there": {held + "\n" + mark("promises 1, 3.") + "func TestB(t *testing.T) {}\n", "lease/a_test.go:6: docs/why/promises.md and docs/why/rules.md have no 3"},
		"a rule that is not there":    {held + "\n" + mark("L8.") + "func TestB(t *testing.T) {}\n", "lease/a_test.go:6: docs/why/promises.md and docs/why/rules.md have no L8"},
		"a marker of nothing":         {held + "\n" + mark("promise 1.") + "\nvar x = \"y\"\n", "lease/a_test.go:6: this marker belongs to no test"},
		"a marker without its end":    {held + "\n" + mark("promise 1") + "func TestB(t *testing.T) {}\n", "lease/a_test.go:6:"},
		"a number without its word":   {held + "\n" + mark("1.") + "func TestB(t *testing.T) {}\n", "cannot be read"},
		"a rule as a promise":         {held + "\n" + mark("promise L9.") + "func TestB(t *testing.T) {}\n", "cannot be read"},
		"a number named twice":        {held + "\n" + mark("promises 1, 1.") + "func TestB(t *testing.T) {}\n", "cannot be read"},
		"something that is no number": {held + "\n" + mark("L9, X1.") + "func TestB(t *testing.T) {}\n", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := generate(repository(t, map[string]string{"lease/a_test.go": c.text}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

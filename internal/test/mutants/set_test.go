package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's.
var root, _ = filepath.Abs("../../..")

func load(t *testing.T) []Mutant {
	t.Helper()
	all, err := Load(os.DirFS("set"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The set is kept alive: a bug whose lines are no longer there is mended with the code, or replaced.
func TestEachBugApplies(t *testing.T) {
	all := load(t)
	if len(all) == 0 {
		t.Fatal("the set is empty")
	}
	for _, m := range all {
		changed, err := m.Apply(root)
		if err != nil {
			t.Error(err)
		}
		for name, text := range changed {
			if b, _ := os.ReadFile(filepath.Join(root, name)); string(b) == text {
				t.Errorf("%s changes nothing in %s", m.Name, name)
			}
		}
		for _, tests := range m.Tests {
			if info, err := os.Stat(filepath.Join(root, tests.Package)); err != nil || !info.IsDir() || !strings.HasPrefix(tests.Package, "./") {
				t.Errorf("%s: there is no package %s", m.Name, tests.Package)
			}
		}
	}
}

func TestABugIsPutInOnce(t *testing.T) {
	m, err := parse("lease/x", "It waits\nfor nobody.\n\ntest ./lease TestA|TestB\ntest ./tick\nsurvives it is equal\nfile a\n if x {\n-\treturn 1\n+return 2\n+\n }\n")
	if err != nil {
		t.Fatal(err)
	}
	if m.Bug != "It waits for nobody." || m.Package() != "lease" || m.Survives != "it is equal" || len(m.Tests) != 2 || m.Tests[0] != (Tests{"./lease", "TestA|TestB"}) {
		t.Errorf("%+v", m)
	}
	for text, want := range map[string]string{
		"\tif x {\n\t\treturn 1\n\t}\nend":                  "if x {\nreturn 2\n\n}\nend",
		"if y {\nreturn 1\n}":                               "",
		"if x {\nreturn 1\n}\nif x {\nreturn 1\n}\n":        "",
		"if x {\nreturn 1\n\n}\nif x {\n  return 1  \n}\n.": "if x {\nreturn 1\n\n}\nif x {\nreturn 2\n\n}\n.",
	} {
		got, err := m.Edits[0].apply(text)
		if (err == nil) != (want != "") || got != want {
			t.Errorf("%q became %q, want %q; %v", text, got, want, err)
		}
	}
	for _, bad := range []string{"", "A bug.", "A bug.\n\ntest ./lease", "A bug.\n\n-x\nfile y", "A bug.\n\ntests ./lease\nfile x\n-y"} {
		if _, err := parse("x", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

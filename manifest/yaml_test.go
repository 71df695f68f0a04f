package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// yamlJob is a document with one job and these further lines in it.
func yamlJob(lines string) string {
	return "version: 1\napp: a\njobs:\n  - name: x\n    schedule: 15 4 * * *\n    request:\n      url: https://h/\n" + lines
}

// TestYAMLScalars: what stands without quotes is a string unless YAML 1.2 takes it for something
// else; then it is refused where a string is wanted, and as a number it is read only if it is
// written as everybody writes numbers.
func TestYAMLScalars(t *testing.T) {
	for scalar, want := range map[string]string{
		"no": "no", "No": "No", "yes": "yes", "on": "on", "off": "off", "y": "y", "N": "N", "2026-11-21": "2026-11-21", "1:30": "1:30", "'5'": "5",
		`"5"`: "5", `"null"`: "null", "a5": "a5", "1.2.3": "1.2.3", "0xg": "0xg", "|\n        5\n": "5\n",
		"5": "found a number", "0x1f": "found a number", "012": "found a number", "08": "found a number", "1e3": "found a number", "1e999": "found a number", ".5": "found a number", "+5": "found a number",
		"1_000": "found a number", ".inf": "found a number", ".nan": "found a number", "true": "found a boolean", "True": "found a boolean", "TRUE": "found a boolean", "false": "found a boolean", "False": "found a boolean", "FALSE": "found a boolean", "~": "found null", "null": "found null", "": "found null",
		"!!str 5": "tags are not supported", "123456789012345678901234567890": "found a number",
	} {
		m, errs := load([]byte(yamlJob("      body: "+scalar+"\n")), "m.yaml")
		if refused, ok := strings.CutPrefix(want, "found"); ok || strings.HasPrefix(want, "tags") {
			if len(errs) != 1 || errs[0].Path != "jobs/0/request/body" || !strings.Contains(errs[0].Message, strings.TrimSpace(refused)) {
				t.Errorf("body: %s: got %v, want one error: %s", scalar, errs, want)
			}
		} else if len(errs) > 0 || m.Jobs[0].Request.Body != want {
			t.Errorf("body: %s: got %v, want %q", scalar, errs, want)
		}
	}
	for scalar, right := range map[string]bool{
		"60": true, "60.0": true, "6e1": true, "6E+1": true, "0x3c": false, "0o74": false, "074": false, "060": false, "6_0": false, "+60": false, "60.": false, ".6e2": false,
		".inf": false, ".nan": false, "6.5": false, "'60'": false, "1:00": false, "1e999": false, "0b1": false,
	} {
		m, errs := load([]byte(yamlJob("    policy: {timeout_seconds: "+scalar+"}\n")), "m.yaml")
		switch {
		case right && (len(errs) > 0 || m.Jobs[0].Policy.Timeout.Seconds() != 60):
			t.Errorf("timeout_seconds: %s: %v", scalar, errs)
		case !right && (len(errs) != 1 || errs[0].Path != "jobs/0/policy/timeout_seconds"):
			t.Errorf("timeout_seconds: %s: got %v, want one error", scalar, errs)
		}
	}
}

// TestNorway: a job, a header or a variable may be called no.
func TestNorway(t *testing.T) {
	m, errs := load([]byte("version: 1\napp: no\njobs:\n  - name: no\n    schedule: '@daily'\n    command: [yes, no]\n    env: {NO: no, y: on}\n"), "m.yaml")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	j := m.Jobs[0]
	if got := fmt.Sprint(m.App, j.Name, j.Command.Args, j.Command.Env); got != "nono[yes no] map[NO:no y:on]" {
		t.Error(got)
	}
}

// TestYAMLNames: a field's name is a string, and stands in an object once.
func TestYAMLNames(t *testing.T) {
	for lines, path := range map[string]string{
		"      headers: {no: a, on: b}\n":           "",
		"      headers: {'5': a}\n":                 "",
		"      headers: {5: a}\n":                   "jobs/0/request/headers/5",
		"      headers: {1e3: a}\n":                 "jobs/0/request/headers/1e3",
		"      headers: {true: a}\n":                "jobs/0/request/headers/true",
		"      headers: {~: a}\n":                   "jobs/0/request/headers/~0",
		"      headers: {null: a}\n":                "jobs/0/request/headers/null",
		"      headers: {!!str a: b}\n":             "jobs/0/request/headers/!!str",
		"      headers: {A: b, A: b}\n":             "jobs/0/request/headers/A",
		"      headers: {A: b, 'A': c}\n":           "jobs/0/request/headers/A",
		"      headers: {A: b, a: c}\n":             "jobs/0/request/headers/a",
		"    name: y\n":                             "jobs/0/name",
		"    policy: {}\n    policy: {}\n":          "jobs/0/policy",
		"    policy: &p {}\n    auth: {<<: *p}\n":   "jobs/0/auth/<<",
		"    policy: &p {}\n    auth: {'<<': {}}\n": "jobs/0/auth/<<",
	} {
		_, errs := load([]byte(yamlJob(lines)), "m.yaml")
		if path == "" && len(errs) > 0 || path != "" && (len(errs) != 1 || errs[0].Path != path) {
			t.Errorf("%s: got %v, want one error of %q", lines, errs, path)
		}
	}
}

// TestYAMLSizes: an alias costs what it stands for, so that no small document becomes a large one.
func TestYAMLSizes(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	body := func(size, jobs int) string {
		text := "version: 1\napp: a\ndefaults: {timezone: &body " + strings.Repeat("x", size) + "}\njobs:\n"
		for i := range jobs {
			text += fmt.Sprintf("  - {name: j%d, schedule: '@daily', request: {url: 'https://h/', body: *body}}\n", i)
		}
		return text
	}
	inherited := "version: 1\napp: a\ndefaults: {request: {headers: {X: " + strings.Repeat("x", 100_000) + "}}}\njobs:\n"
	for i := range 100 {
		inherited += fmt.Sprintf("  - {name: j%d, schedule: '@daily', request: {url: 'https://h/'}}\n", i)
	}
	told := strings.Replace(inherited, "request: {headers: {X: ", "hooks: [{on: [start], ping: https://h/", 1)
	told = strings.Replace(told, "}}}\njobs:", "}]}\njobs:", 1)
	for name, c := range map[string]struct{ text, want string }{
		"told":      {told, "with inherited values"},
		"bomb":      {bomb, "with its aliases written out"},
		"body":      {body(100_000, 100), "with its aliases written out"},
		"a little":  {body(1_000, 100), "zone"},
		"inherited": {inherited, "with inherited values"},
		"deep":      {strings.Repeat(" ", 4) + strings.Repeat("[", 60) + strings.Repeat("]", 60), "nested more than"},
	} {
		_, errs := load([]byte(c.text), "m.yaml")
		if len(errs) != 1 || !strings.Contains(errs[0].Message, c.want) {
			t.Errorf("%s: got %.300v, want one error: %s", name, errs, c.want)
		}
	}
}

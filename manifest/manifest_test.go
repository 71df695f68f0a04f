package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file beside the input, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n got %s\nwant %s", path, got, want)
	}
}

// inputs lists the manifests of a folder, of which there must be at least so many.
func inputs(t testing.TB, folder string, atLeast int) (paths []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", folder, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if ext := filepath.Ext(path); ext == ".json" || ext == ".yaml" {
			paths = append(paths, path)
		}
	}
	if len(paths) < atLeast {
		t.Fatalf("%d manifests in testdata/%s: there should be at least %d", len(paths), folder, atLeast)
	}
	return paths
}

// TestGood: valid manifests, their canonical bytes, and that those mean the same.
func TestGood(t *testing.T) {
	for _, path := range inputs(t, "good", 8) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, err := LoadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			canonical := m.Canonical()
			golden(t, strings.TrimSuffix(path, filepath.Ext(path))+".canonical", canonical)
			again, err := Load(canonical, "canonical.json")
			if err != nil {
				t.Fatalf("the canonical form is not valid: %v", err)
			}
			if twice := again.Canonical(); !bytes.Equal(twice, canonical) {
				t.Errorf("the canonical form's canonical form is another:\n%s\n%s", canonical, twice)
			}
		})
	}
}

// TestBad: invalid manifests and all of their errors.
func TestBad(t *testing.T) {
	for _, path := range inputs(t, "bad", 8) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := LoadFile(path)
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("got %v, want Errors", err)
			}
			golden(t, path+".errors", []byte(errs.Error()+"\n"))
		})
	}
}

// TestSameInBothFormats: a document written as YAML means what it means as JSON. JSON is turned
// into YAML by re-encoding its values as block style, below.
func TestSameInBothFormats(t *testing.T) {
	for _, folder := range []string{"good", "bad"} {
		for _, path := range inputs(t, folder, 1) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var document any
			decoder := json.NewDecoder(bytes.NewReader(data))
			decoder.UseNumber()
			if filepath.Ext(path) != ".json" || decoder.Decode(&document) != nil {
				continue
			}
			plain, _ := json.Marshal(document) // a duplicate key is gone from both
			fromJSON, jsonErrs := load(plain, "x.json")
			var block bytes.Buffer
			writeYAML(&block, document, "")
			fromYAML, yamlErrs := load(block.Bytes(), "x.yaml")
			if len(jsonErrs) == 0 && !reflect.DeepEqual(fromJSON, fromYAML) {
				t.Errorf("%s differs:\n%+v\n%+v", path, fromJSON, fromYAML)
			}
			if a, b := messages(jsonErrs), messages(yamlErrs); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: errors differ:\n%v\n%v\nof\n%s", path, a, b, block.String())
			}
		}
	}
}

func messages(errs Errors) map[string]string {
	m := map[string]string{}
	for _, e := range errs {
		m[e.Path] += e.Message + "\n"
	}
	return m
}

// writeYAML writes objects and lists in block style, and scalars as JSON does.
func writeYAML(b *bytes.Buffer, v any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			b.WriteString(indent + "{}\n")
		}
		for _, name := range sortedKeys(v) {
			key, _ := json.Marshal(name)
			b.WriteString(indent + string(key) + ":\n")
			writeYAML(b, v[name], indent+"  ")
		}
	case []any:
		if len(v) == 0 {
			b.WriteString(indent + "[]\n")
		}
		for _, item := range v {
			b.WriteString(indent + "-\n")
			writeYAML(b, item, indent+"  ")
		}
	default:
		scalar, _ := json.Marshal(v)
		b.WriteString(indent + string(scalar) + "\n")
	}
}

// TestScopeDeclared: said by the job, or in the defaults, or by nobody.
// Holds: promise 12.
func TestScopeDeclared(t *testing.T) {
	const jobs = `"version":1,"app":"a","jobs":[{"name":"x","schedule":"@daily","request":{"url":"http://h/"}POLICY}]`
	for _, c := range []struct {
		policy, defaults string
		scope            job.Scope
		declared         bool
	}{
		{``, ``, job.Host, false},
		{`,"policy":{"timeout_seconds":5}`, `,"defaults":{"policy":{"concurrency":"Allow"}}`, job.Host, false},
		{`,"policy":{"concurrency_scope":"host"}`, ``, job.Host, true},
		{``, `,"defaults":{"policy":{"concurrency_scope":"global"}}`, job.Global, true},
		{`,"policy":{"concurrency_scope":"host"}`, `,"defaults":{"policy":{"concurrency_scope":"global"}}`, job.Host, true},
	} {
		m, err := Load([]byte("{"+strings.Replace(jobs, "POLICY", c.policy, 1)+c.defaults+"}"), "m")
		if err != nil {
			t.Fatal(err)
		}
		if s := m.Jobs[0]; s.Policy.Scope != c.scope || s.ScopeDeclared != c.declared {
			t.Errorf("%q with %q: scope %s, declared %v", c.policy, c.defaults, s.Policy.Scope, s.ScopeDeclared)
		}
	}
}

// TestPrecedence: the job's word, else the defaults', else the built-in one; field by field.
func TestPrecedence(t *testing.T) {
	m, err := LoadFile("testdata/good/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]job.Spec{}
	for _, s := range m.Jobs {
		jobs[s.Name] = s
	}
	own, inherits := jobs["own"], jobs["inherits"]
	if own.Timezone != "Asia/Kathmandu" || inherits.Timezone != "Europe/Berlin" {
		t.Errorf("zones %s and %s", own.Timezone, inherits.Timezone)
	}
	if want := (job.Retries{MaxAttempts: 7, Min: 5 * time.Second, Max: time.Minute}); own.Policy.Retries != want {
		t.Errorf("retries %+v, want %+v", own.Policy.Retries, want)
	}
	if want := (job.Retries{MaxAttempts: 7, Min: time.Second, Max: time.Minute}); inherits.Policy.Retries != want {
		t.Errorf("retries %+v, want %+v", inherits.Policy.Retries, want)
	}
	if want := map[string]string{"x-tenant": "own", "Accept": "text/plain"}; !reflect.DeepEqual(own.Request.Headers, want) {
		t.Errorf("headers %v, want %v", own.Request.Headers, want)
	}
	if own.Policy.Deadline != 0 || inherits.Policy.Deadline != time.Hour {
		t.Errorf("deadlines %s and %s", own.Policy.Deadline, inherits.Policy.Deadline)
	}
	if c := jobs["command"]; c.Policy.Leftovers != job.LeftoversKill || inherits.Policy.Leftovers != job.LeftoversWait {
		t.Errorf("leftovers %s of the command, %s of the request", c.Policy.Leftovers, inherits.Policy.Leftovers)
	}
}

// TestEveryFieldIsRead: a policy that differs from every default arrives whole, and survives the
// canonical form; so no field of job.Policy is forgotten here.
func TestEveryFieldIsRead(t *testing.T) {
	for path, name := range map[string]string{"testdata/good/every-field.yaml": "command", "testdata/good/every-request-field.yaml": "request"} {
		m, err := LoadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(m.Canonical(), "")
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range m.Jobs[0].Hooks {
			v := reflect.ValueOf(h)
			for f := range v.NumField() {
				kind := []string{"Command", "Request", "Ping"}[i]
				one := slices.Contains([]string{"Command", "Request", "Ping"}, v.Type().Field(f).Name)
				if v.Field(f).IsZero() != (one && v.Type().Field(f).Name != kind) {
					t.Errorf("%s of hook %d is %v", v.Type().Field(f).Name, i, v.Field(f))
				}
			}
		}
		if len(m.Jobs[0].Hooks) != 3 {
			t.Errorf("%d hooks", len(m.Jobs[0].Hooks))
		}
		p, standard := reflect.ValueOf(m.Jobs[0].Policy), reflect.ValueOf(job.DefaultPolicy(name == "command"))
		for i := range p.NumField() {
			field := p.Type().Field(i).Name
			meaningless := field == "OnLostRequest" && name == "command" || field == "Leftovers" && name == "request"
			if reflect.DeepEqual(p.Field(i).Interface(), standard.Field(i).Interface()) != meaningless {
				t.Errorf("%s of the %s is %v", field, name, p.Field(i))
			}
		}
		m.Jobs[0].ScopeDeclared = true
		if !reflect.DeepEqual(m.Jobs, again.Jobs) {
			t.Errorf("the canonical form loses something:\n%+v\n%+v", m.Jobs, again.Jobs)
		}
	}
}

// TestLimits on the number of things, which are tedious to write into files.
// Holds: promise 25.
func TestLimits(t *testing.T) {
	build := func(jobs, schedules, secrets int) []byte {
		type object = map[string]any
		list := make([]any, jobs)
		for i := range list {
			list[i] = object{
				"name":      "j" + strings.Repeat("x", i%60) + string(rune('a'+i/60)),
				"schedules": repeat("@daily", schedules),
				"request":   object{"url": "https://h/"},
				"auth":      object{"secret_refs": repeat("S", secrets)},
			}
		}
		b, _ := json.Marshal(object{"version": 1, "app": "a", "jobs": list})
		return b
	}
	for _, c := range []struct {
		jobs, schedules, secrets int
		path                     string
	}{
		{256, 64, 8, ""},
		{1, 1, 0, ""},
		{0, 1, 1, "jobs"},
		{257, 1, 1, "jobs"},
		{1, 0, 1, "jobs/0/schedules"},
		{1, 65, 1, "jobs/0/schedules"},
		{1, 1, 9, "jobs/0/auth/secret_refs"},
	} {
		_, errs := load(build(c.jobs, c.schedules, c.secrets), "m.json")
		if c.path == "" && len(errs) > 0 || c.path != "" && (len(errs) != 1 || errs[0].Path != c.path) {
			t.Errorf("%+v: got %v", c, errs)
		}
	}
}

func repeat(s string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

// TestHostile: documents made to exhaust are refused, and soon.
// What an application writes into a name does nothing to the terminal that shows it.
func TestErrorsStayOnTheirLine(t *testing.T) {
	_, err := Load([]byte("{\"version\":1,\"\\u001b[2J\\nx\":1}"), "m.json")
	if err == nil || strings.ContainsRune(err.Error(), '\x1b') || !strings.Contains(err.Error(), `: \x1b[2J\nx: unknown field`) {
		t.Errorf("%q, want its name written out on one line", err)
	}
}

func TestHostile(t *testing.T) {
	testsize.Counts(t)
	for name, text := range map[string]string{
		"flow lists":  strings.Repeat("[", 200_000),
		"flow maps":   strings.Repeat("{a: ", 100_000),
		"block lists": strings.Repeat("- ", 200_000),
		"keys":        strings.Repeat("? ", 200_000),
		"many fields": strings.Repeat("a: b\n", 100_000),
		"aliases":     "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\njobs: [*c,*c,*c,*c]\n",
		"itself":      "a: &a [*a]\n",
		"many values": "{\"jobs\":[" + strings.Repeat("0,", 1<<20) + "0]}",
		"too large":   strings.Repeat("#\n", MaxSize),
		"not UTF-8":   "version: 1\napp: \xff\n",
	} {
		if _, errs := load([]byte(text), "m.yaml"); len(errs) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if got := allocated(text, "m.yaml"); got > mostYAML() {
			t.Errorf("%s: %d MB, want at most %d", name, got>>20, mostYAML()>>20)
		}
	}
}

// FuzzLoad: nothing panics, and what is valid has a canonical form that is a fixed point.
func FuzzLoad(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, path := range inputs(f, folder, 8) {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, filepath.Ext(path) == ".yaml")
		}
	}
	for _, text := range hostile(64) {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, yaml bool) {
		name := "m.json"
		if yaml {
			name = "m.yaml"
		}
		m, err := Load(data, name)
		if err != nil {
			return
		}
		identity(t, m)
	})
}

// TestTaskFields: whatever a task may say arrives in the job.
func TestTaskFields(t *testing.T) {
	m, err := LoadFile("testdata/good/tasks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	full := m.Jobs[slices.IndexFunc(m.Jobs, func(s job.Spec) bool { return s.Name == "full" })].Task
	for _, of := range []any{*full, *full.Limit} {
		v := reflect.ValueOf(of)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not read", v.Type().Field(i).Name)
			}
		}
	}
	if _, err := load([]byte(`{"version":1,"app":"a","jobs":[{"name":"x","schedule":"@daily","task":{"kind":"k","args":"`+strings.Repeat("x", maxArgs-1)+`"}}]}`), "m.json"); len(err) != 1 || err[0].Path != "jobs/0/task/args" {
		t.Errorf("arguments that are a byte too large: %v", err)
	}
	if _, err := load([]byte(`{"version":1,"app":"a","jobs":[{"name":"x","schedule":"@daily","task":{"kind":"k","args":"`+strings.Repeat("x", maxArgs-2)+`"}}]}`), "m.json"); len(err) != 0 {
		t.Errorf("arguments of the largest size: %v", err)
	}
}

package manifest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/job"
)

// The canonical form of a manifest with one request job, around its request.
const (
	canonicalHead = `{"version":1,"app":"a","jobs":[{"name":"x","schedules":["@daily"],"timezone":"UTC",`
	canonicalTail = `"policy":{"concurrency":"Forbid","concurrency_scope":"host","timeout_seconds":60,"retries":{"max_attempts":3,"min_seconds":1,"max_seconds":60}},"auth":{"secret_refs":[]}}]}`
)

// TestCanonicalBytes: the traps, one by one, in bytes.
func TestCanonicalBytes(t *testing.T) {
	withRequest := func(request string) string { return canonicalHead + `"request":` + request + `,` + canonicalTail }
	const plainRequest = `{"method":"POST","url":"https://h/","headers":{},"body":""}`
	inPolicyOf := func(policy string) string {
		return canonicalHead + `"request":` + plainRequest + `,"policy":` + policy + `,"auth":{"secret_refs":[]}}]}`
	}
	for name, c := range map[string]struct{ job, want string }{
		"empty things are written": {`"schedule":"@daily","request":{"url":"https://h/"}`, withRequest(plainRequest)},
		"empty things as given":    {`"schedule":"@daily","request":{"url":"https://h/","headers":{},"body":""},"policy":{"retries":{}},"auth":{"secret_refs":[]}`, withRequest(plainRequest)},
		"& < > stay": {`"schedule":"@daily","request":{"url":"https://h/?a=1&b=<c>","headers":{"X":"<&>"},"body":"\u0026\u003c\u003e"}`,
			withRequest(`{"method":"POST","url":"https://h/?a=1&b=<c>","headers":{"X":"<&>"},"body":"&<>"}`)},
		"unicode stays": {`"schedule":"@daily","request":{"url":"https://h/","body":"\u00e9 \ud83d\ude00 \u2028\u2029 \\u2028 \u007f \ufeff \/"}`,
			withRequest(`{"method":"POST","url":"https://h/","headers":{},"body":"é 😀 ` + "\u2028\u2029" + ` \\u2028 ` + "\x7f \ufeff" + ` /"}`)},
		"control characters": {`"schedule":"@daily","request":{"url":"https://h/","body":"\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001F\"\\"}`,
			withRequest(`{"method":"POST","url":"https://h/","headers":{},"body":"\u0000\b\t\n\u000b\f\r\u001f\"\\"}`)},
		"headers by their bytes": {`"schedule":"@daily","request":{"headers":{"b":"1","a":"2","B":"3","A-":"4","_":"5"},"url":"https://h/"}`, ""}, // b and B are one
		"headers in order": {`"schedule":"@daily","request":{"headers":{"b":"1","a":"2","C":"3","A-":"4","_":"5"},"url":"https://h/"}`,
			withRequest(`{"method":"POST","url":"https://h/","headers":{"A-":"4","C":"3","_":"5","a":"2","b":"1"},"body":""}`)},
		"a schedule is trimmed, not rewritten": {`"schedule":" \t15  4 1 JAN  *\n","request":{"url":"https://h/"}`,
			strings.Replace(withRequest(plainRequest), "@daily", "15  4 1 JAN  *", 1)},
		"schedules keep their order and their doubles": {`"schedules":["@hourly"," @daily ","@hourly"],"request":{"url":"https://h/"}`,
			strings.Replace(withRequest(plainRequest), `"@daily"`, `"@hourly","@daily","@hourly"`, 1)},
		"numbers are whole and plain": {`"schedule":"@daily","request":{"url":"https://h/"},"policy":{"timeout_seconds":6e1,"retries":{"max_attempts":3.0,"max_seconds":3153600000,"min_seconds":-0}}`,
			inPolicyOf(`{"concurrency":"Forbid","concurrency_scope":"host","timeout_seconds":60,"retries":{"max_attempts":3,"min_seconds":0,"max_seconds":3153600000}}`)},
		"fields of ours where they are used": {`"schedule":"@daily","request":{"url":"https://h/"},"policy":{"catch_up":"skip","deadline_seconds":0,"on_crash":"rerun"}`,
			inPolicyOf(`{"concurrency":"Forbid","concurrency_scope":"host","timeout_seconds":60,"retries":{"max_attempts":3,"min_seconds":1,"max_seconds":60},"on_crash":"rerun"}`)},
	} {
		m, err := Load([]byte(`{"jobs":[{`+c.job+`,"name":"x"}],"app":"a","version":1.0}`), "m.json")
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := string(m.Canonical()); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestHalfASurrogate: what no character is, is refused rather than replaced.
func TestHalfASurrogate(t *testing.T) {
	for text, right := range map[string]bool{
		`\ud83d\ude00`: true, `\uD83D\uDE00x`: true, `\\ud800`: true, `\\\\ud800`: true, `\ufffd`: true, `\u00e9\ud83d\ude00`: true,
		`\ud800`: false, `\udc00`: false, `\ud800\ud800`: false, `\ude00\ud83d`: false, `\ud800x`: false, `\\\ud800`: false, `\ud83d\\ude00`: false,
	} {
		data, _ := json.Marshal(inRequest("body", "TEXT"))
		_, errs := load([]byte(strings.Replace(string(data), "TEXT", text, 1)), "m.json")
		if right != (len(errs) == 0) || !right && errs[0].Column < 10 {
			t.Errorf("%s: %v", text, errs)
		}
	}
}

// TestCanonicalIsIdentity: what is read back from the canonical form is what was written, for
// whatever a manifest may say.
func TestCanonicalIsIdentity(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // about one in fourteen keeps also the rules that the description cannot state
			none := 0
			data, err := json.Marshal(drawer{t, &none}.value(described().manifest))
			if err != nil {
				t.Fatal(err)
			}
			if m, errs := load(data, "m.json"); len(errs) == 0 {
				valid++
				identity(t, m)
				return
			}
		}
	})
	if valid < 5 {
		t.Errorf("%d documents were valid", valid)
	}
}

// published is the schema, compiled once.
var published = sync.OnceValue(func() *jsonschema.Schema { return compiled(panics{}) })

type panics struct{ testing.TB }

func (panics) Helper()           {}
func (panics) Fatal(args ...any) { panic(args) }

// identity fails if the canonical form does not mean what the manifest means.
func identity(t interface {
	Helper()
	Fatalf(string, ...any)
}, m *Manifest) {
	t.Helper()
	canonical := m.Canonical()
	again, err := Load(canonical, "canonical.json")
	if err != nil {
		t.Fatalf("the canonical form is not valid: %v\n%s", err, canonical)
	}
	if twice := again.Canonical(); string(twice) != string(canonical) {
		t.Fatalf("not a fixed point:\n%s\n%s", canonical, twice)
	}
	jobs := slices.Clone(m.Jobs)
	slices.SortFunc(jobs, func(a, b job.Spec) int { return strings.Compare(a.Name, b.Name) })
	for i := range jobs {
		jobs[i].ScopeDeclared = true // it says every scope
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := published().Validate(value); err != nil {
		t.Fatalf("the schema refuses it: %v\n%s", err, canonical)
	}
	if again.App != m.App || !reflect.DeepEqual(jobs, again.Jobs) {
		t.Fatalf("the canonical form means something else:\n%+v\n%+v", jobs, again.Jobs)
	}
}

package manifest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func document(t *testing.T, name string, o obj) Document {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return Document{name, data}
}

// prefixed gives the jobs of a document other names.
func prefixed(prefix string, o obj) obj {
	for _, j := range o["jobs"].([]any) {
		j.(obj)["name"] = prefix + j.(obj)["name"].(string)
	}
	return o
}

// TestLoadAll: the jobs of all documents, each with its own document's defaults; and the whole's
// canonical form is a manifest.
func TestLoadAll(t *testing.T) {
	a := prefixed("a", top("defaults", obj{"timezone": "Asia/Kathmandu"}))
	b := prefixed("b", jobs(255))
	m, err := LoadAll([]Document{document(t, "a.json", a), document(t, "b.json", b)}, "all")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Jobs) != 256 || m.Jobs[0].Timezone != "Asia/Kathmandu" || m.Jobs[1].Timezone != "UTC" {
		t.Errorf("%d jobs, in %s and %s", len(m.Jobs), m.Jobs[0].Timezone, m.Jobs[1].Timezone)
	}
	identity(t, m)
}

func TestLoadAllRefuses(t *testing.T) {
	one := document(t, "a.json", prefixed("a", jobs(1)))
	large := obj{"url": "https://h/", "body": strings.Repeat("\x01", 100_000)} // six times as large in JSON
	for name, c := range map[string]struct {
		documents []Document
		want      string // of the one error
	}{
		"nothing":       {nil, "there is no document: want one at least"},
		"too many jobs": {[]Document{one, document(t, "b.json", prefixed("b", jobs(256)))}, "jobs: together the documents have 257 jobs: want 1 to 256"},
		"another app":   {[]Document{one, document(t, "b.json", prefixed("b", top("app", "b")))}, `b.json:1:2: app: "b", but "a" in a.json: want the same app in all files`},
		"a name again":  {[]Document{one, document(t, "b.json", prefixed("a", jobs(2)))}, `b.json:1:21: jobs/0/name: "aj0" is also the name of a.json: jobs/0: names are unique across files`},
		"wrong version": {[]Document{one, document(t, "b.json", prefixed("b", top("version", 2)))}, `b.json:1:86: version: 2: want 1`},
		"once too large": {[]Document{one, document(t, "b.json", prefixed("b", request(func(top, j obj) {
			j["request"] = large
			body := strings.Repeat("x", 50_000)
			top["defaults"] = obj{"request": obj{"headers": obj{"X": body}}}
			all := []any{j}
			for i := range 100 {
				all = append(all, obj{"name": "j" + strings.Repeat("y", i%50) + string(rune('a'+i/50)), "schedule": "@daily", "request": obj{"url": "https://h/"}})
			}
			top["jobs"] = all
		})))}, "b.json:1:1: with inherited values and every default written out it is larger than 4194304 bytes: split it"},
	} {
		_, err := LoadAll(c.documents, "all")
		var errs Errors
		if !errors.As(err, &errs) || errs.Error() != c.want {
			t.Errorf("%s:\n got %.500v\nwant %s", name, err, c.want)
		}
	}
}

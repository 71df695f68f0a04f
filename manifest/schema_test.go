package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// TestSchemaIsPublished: the file in docs is the one that is made of the description.
func TestSchemaIsPublished(t *testing.T) {
	golden(t, "../docs/reference/manifest.schema.json", Schema())
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaURL, document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaURL) // checks it against the draft's own schema as well
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agree reports where the schema and the validation differ on what a schema can state.
func agree(t interface {
	Helper()
	Errorf(string, ...any)
}, schema *jsonschema.Schema, data []byte) (accepted bool) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Errorf("%v in %s", err, data)
		return false
	}
	refused := schema.Validate(value)
	_, errs := load(data, "m.json")
	stated := slices.DeleteFunc(slices.Clone(errs), func(e Error) bool { return e.beyond })
	if (refused == nil) != (len(stated) == 0) {
		t.Errorf("the schema says %v\nthe validation says %v\nof %s", refused, stated, data)
	}
	return refused == nil
}

// TestSchemaAgreesOnTheExamples: JSON and YAML, good and bad.
func TestSchemaAgreesOnTheExamples(t *testing.T) {
	schema := compiled(t)
	for _, folder := range []string{"good", "bad"} {
		for _, path := range inputs(t, folder, 8) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			root, err := parse(data, path)
			if err != nil || strings.Contains(path, "duplicates") || strings.Contains(path, "yaml-fields") {
				continue // not a document, or one that has lost its duplicate keys
			}
			plain, ok := plainValue(root)
			if !ok {
				continue // a merge key or a tag
			}
			text, err := json.Marshal(plain)
			if err != nil {
				t.Fatal(err)
			}
			if agree(t, schema, text) != (folder == "good") {
				t.Errorf("the schema's verdict on %s is the other one", path)
			}
		}
	}
}

// plainValue is what encoding/json would have read.
func plainValue(n *node) (v any, ok bool) {
	switch n.kind {
	case null:
		return nil, true
	case boolean:
		return n.text == "true", true
	case number:
		return json.Number(n.text), plain().MatchString(n.text)
	case text:
		return n.text, true
	case list:
		all := []any{}
		for _, item := range n.items {
			v, ok := plainValue(item)
			if !ok {
				return nil, false
			}
			all = append(all, v)
		}
		return all, true
	case object:
		all := map[string]any{}
		for _, m := range n.fields {
			v, ok := plainValue(m.value)
			if !ok || m.unread != "" {
				return nil, false
			}
			all[m.name] = v
		}
		return all, true
	}
	return nil, false
}

// TestSchemaAgrees: whatever stands in a document, the schema and the validation say the same on
// the rules that a schema can state. Documents are drawn from the description itself, mostly right,
// so that a field which is added there is drawn too.
func TestSchemaAgrees(t *testing.T) {
	schema := compiled(t)
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		mistakes := rapid.SampledFrom([]int{0, 0, 0, 1, 1, 3}).Draw(t, "mistakes")
		g := drawer{t, &mistakes}
		data, err := json.Marshal(g.value(described().manifest))
		if err != nil {
			t.Fatal(err)
		}
		if agree(t, schema, data) {
			accepted++
		} else {
			refused++
		}
	})
	t.Logf("%d accepted, %d refused", accepted, refused)
	if all := accepted + refused; accepted < all/20 || refused < all/20 {
		t.Errorf("%d accepted, %d refused: the documents are all of one sort", accepted, refused)
	}
}

// drawer draws values for shapes, with so many mistakes at most: with one, no other error hides a
// difference.
type drawer struct {
	*rapid.T
	mistakes *int
}

func (g drawer) mistake() bool {
	if *g.mistakes == 0 || !g.chance(10) {
		return false
	}
	*g.mistakes--
	return true
}

func (g drawer) chance(percent int) bool {
	return rapid.IntRange(1, 100).Draw(g.T, "chance") <= percent
}

func pick[V any](g drawer, of ...V) V { return rapid.SampledFrom(of).Draw(g.T, "value") }

var samples = []string{"a", "no", "Europe/Berlin", "@daily", "@every 5s", "http://h/", "HTTPS://h", "ftp://h", "X-A", "", " ", "\x00", "a\x00b",
	"a b", "\t", "\n", "1a", "027", "0022", "0999", "www-data", "-1", "é", "\u2028", "=", "env:X", "GET", "wait", "Wait", "forbid", "http://?", "http:///", "\u00a0", strings.Repeat("a", 63), strings.Repeat("a", 64)}

func (g drawer) value(s *shape) any {
	if g.mistake() {
		return pick[any](g, nil, true, "text", 5, 2.5, []any{}, map[string]any{}, []any{"a"}, map[string]any{"a": "b"})
	}
	if s.free {
		return pick[any](g, nil, true, -1.5, json.Number("1e30"), "é\u2028<&>", []any{"a", nil, []any{}}, map[string]any{"b": 1, "a": map[string]any{"": false}})
	}
	if s.forms != nil {
		s = pick(g, s.forms...)
	}
	switch {
	case s.kind == boolean:
		return g.chance(50)
	case s.kind == number:
		if g.mistake() {
			return pick[any](g, s.min-1, s.max+1, json.Number("1.5"), json.Number("1e30"))
		}
		return pick[any](g, s.min, s.max, s.standardOr(s.min), min(s.max, 60), json.Number(strconv.FormatInt(s.min, 10)+".0"), min(s.max, 600), min(s.max, 601))
	case s.words != nil:
		if g.mistake() {
			return pick(g, samples...)
		}
		return pick(g, s.words...)
	case s.kind == text:
		if usual := s.usually(); usual != nil && !g.chance(5) {
			return pick(g, usual...)
		}
		return g.text(s.rules...)
	case s.kind == list:
		all := []any{}
		for range rapid.IntRange(int(s.min), 2).Draw(g.T, "items") {
			all = append(all, g.value(s.item))
		}
		return all
	case s.values != nil:
		all := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(g.T, "entries") {
			all[g.text(s.names)] = g.value(s.values)
		}
		return all
	}
	return g.object(s)
}

// usually are values that hold where a rule cannot be stated.
func (s *shape) usually() []string {
	switch {
	case strings.HasPrefix(s.about, "When it is due"):
		return []string{"@daily", "@every 60s", " 15 4 * * MON ", "1-5/2,7 0 1 jan *", "H 4 * * *", "0 0 L * *", "0 0 4 * * *", "0 0 * * SAT#2"}
	case s.about == windowAbout:
		return []string{"09:00-17:00", "MON-FRI 22:00-06:00"}
	case s.standard == "UTC":
		return []string{"UTC", "Asia/Kathmandu"}
	case len(s.rules) == 1 && s.rules[0].expr == urlRule.expr:
		return []string{"http://h/", "https://h:8443/?a=<b>"}
	case len(s.rules) == 1 && s.rules[0].expr == nameRule.expr:
		return []string{"a", "b", "c1", "d-", "no"}
	}
	return nil
}

func (s *shape) standardOr(v int64) any {
	if s.standard != nil {
		return s.standard
	}
	return v
}

// text is mostly one that the rules allow.
func (g drawer) text(rules ...rule) string {
	fitting := slices.DeleteFunc(slices.Clone(samples), func(s string) bool {
		return slices.ContainsFunc(rules, func(r rule) bool { return r.wrong(s) != "" })
	})
	if len(fitting) == 0 || g.mistake() {
		return pick(g, samples...)
	}
	return pick(g, fitting...)
}

func (g drawer) object(s *shape) any {
	all := map[string]any{}
	for _, p := range s.props {
		if (p.required || g.chance(30)) && !g.mistake() {
			all[p.name] = g.value(p.shape)
		}
	}
	for _, c := range s.choices {
		if g.mistake() {
			if g.chance(50) {
				delete(all, c.among[0])
				delete(all, c.among[1])
				continue
			}
			all[c.among[0]], all[c.among[1]] = g.value(s.prop(c.among[0])), g.value(s.prop(c.among[1]))
			continue
		}
		keep := pick(g, c.among...)
		for _, name := range c.among {
			delete(all, name)
		}
		all[keep] = g.value(s.prop(keep))
	}
	for _, n := range s.needs {
		if _, ok := all[n.beside]; !ok && !g.mistake() {
			delete(all, n.field)
		}
	}
	if g.mistake() {
		all[pick(g, "x", "policy", "command", "schedule", "defaults")] = pick[any](g, 1, "a", nil)
	}
	return all
}

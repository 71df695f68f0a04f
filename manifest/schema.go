package manifest

import (
	"bytes"
	"encoding/json"
)

// SchemaURL is the address of the JSON Schema of the newest version.
const SchemaURL = "https://raw.githubusercontent.com/dibs-run/dibs/main/docs/reference/manifest.schema.json"

// Schema returns the JSON Schema (draft 2020-12) of manifests, for editors: indented, with a line end. It accepts
// every valid manifest. It leaves to Load what it cannot state: expressions, zones and whole addresses, names that
// are unique, retries whose maximum is below their minimum, and limits that depend on what a job inherits.
func Schema() []byte {
	d := described()
	root := schemaOf(d.manifest)
	root = append(members{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", SchemaURL},
		{"title", "dibs manifest"},
	}, root...)
	root = append(root, d.narrowing()...)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic(err) // strings, numbers and lists always marshal
	}
	return b.Bytes()
}

// members are those of a JSON object, in order.
type members []entry

type entry struct {
	name  string
	value any
}

func (m members) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	for i, e := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{e.name, e.value} {
			if j > 0 {
				b.WriteByte(':')
			}
			var one bytes.Buffer
			encoder := json.NewEncoder(&one)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(v); err != nil {
				return nil, err
			}
			b.Write(bytes.TrimSpace(one.Bytes()))
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (m *members) add(name string, value any) { *m = append(*m, entry{name, value}) }

var schemaTypes = map[kind]string{text: "string", number: "integer", list: "array", object: "object", boolean: "boolean"}

func schemaOf(s *shape) (m members) {
	if s.about != "" {
		m.add("description", s.about)
	}
	if s.free {
		return m
	}
	if s.forms != nil {
		var forms []members
		for _, form := range s.forms {
			forms = append(forms, schemaOf(form))
		}
		m.add("oneOf", forms)
		return m
	}
	m.add("type", schemaTypes[s.kind])
	switch {
	case s.kind == number:
		m.add("minimum", s.min)
		m.add("maximum", s.max)
	case s.kind == list:
		m = append(m, listSchema(s)...)
	case s.kind == object && s.values != nil:
		m.add("propertyNames", patterns(s.names))
		m.add("additionalProperties", schemaOf(s.values))
		if s.maxNames > 0 {
			m.add("maxProperties", s.maxNames)
		}
	case s.kind == object:
		m = append(m, objectSchema(s)...)
	case s.words != nil:
		m.add("enum", s.words)
	default:
		m = append(m, patterns(s.rules...)...)
	}
	if s.standard != nil {
		m.add("default", s.standard)
	}
	return m
}

func patterns(rules ...rule) (m members) {
	if len(rules) == 1 {
		return members{{"pattern", rules[0].expr}}
	}
	var all []members
	for _, r := range rules {
		all = append(all, patterns(r))
	}
	if all != nil {
		m.add("allOf", all)
	}
	return m
}

func listSchema(s *shape) (m members) {
	if s.min > 0 {
		m.add("minItems", s.min)
	}
	if s.max > 0 {
		m.add("maxItems", s.max)
	}
	item := schemaOf(s.item)
	if s.first != nil {
		first := append(members{{"allOf", []members{patterns(s.first.rules...)}}}, item...)
		m.add("prefixItems", []members{first})
	}
	m.add("items", item)
	return m
}

func objectSchema(s *shape) (m members) {
	var required []string
	var props members
	for _, p := range s.props {
		if p.required {
			required = append(required, p.name)
		}
		props.add(p.name, schemaOf(p.shape))
	}
	m.add("properties", props)
	m.add("additionalProperties", false)
	if required != nil {
		m.add("required", required)
	}
	var all []members
	for _, c := range s.choices {
		var one []members
		for _, name := range c.among {
			one = append(one, has(name))
		}
		all = append(all, members{{"oneOf", one}})
	}
	if all != nil {
		m.add("allOf", all)
	}
	beside := map[string][]string{}
	for _, n := range s.needs {
		beside[n.field] = append(beside[n.field], n.beside)
	}
	if len(beside) > 0 {
		m.add("dependentRequired", beside)
	}
	return m
}

func has(name string) members { return members{{"required", []string{name}}} }

// narrowing is what holds for jobs beyond the shape that they share: a request has narrower limits
// than a command; and one that neither uses a field of ours nor may inherit it has version 1's.
func (d *description) narrowing() members {
	plain := members{{"if", d.ofVersion1()}, {"then", overlay(d.version1)}}
	request := func(more members) members {
		return members{{"properties", members{{"jobs", members{{"items",
			members{{"if", has("request")}, {"then", append(members{}, more...)}}}}}}}}
	}
	var inheriting []members
	for _, name := range widening {
		inheriting = append(inheriting, has(name))
	}
	defaults := members{{"required", []string{defaultsPath}},
		{"properties", members{{defaultsPath, members{{"anyOf", inheriting}}}}}}
	return members{
		{"allOf", []members{request(overlay(d.ofRequest))}},
		{"if", defaults}, {"then", members{}}, {"else", request(plain)},
	}
}

// ofVersion1 is a job that says nothing of ours, neither itself nor in its policy, and whose expressions
// are plain.
func (d *description) ofVersion1() members {
	plain := patterns(plainRule)
	return members{{"allOf", []members{
		{{"not", members{{"anyOf", widened(d.job)}}}},
		{{"not", members{{"required", []string{"policy"}},
			{"properties", members{{"policy", members{{"anyOf", widened(d.job.prop("policy"))}}}}}}}},
		{{"properties", members{{"schedule", plain}, {"schedules", members{{"items", plain}}}}}},
	}}}
}

// widened lists the fields of ours that an object may have with a value other than the default.
func widened(s *shape) (all []members) {
	for _, p := range s.props {
		if p.shape.addition {
			all = append(all, members{{"required", []string{p.name}},
				{"properties", members{{p.name, members{{"not", members{{"const", p.shape.standard}}}}}}}})
		}
	}
	return all
}

// overlay is a shape that says less than it allows: only what is narrower than elsewhere.
func overlay(s *shape) (m members) {
	switch {
	case s.kind == object:
		var props members
		for _, p := range s.props {
			props.add(p.name, overlay(p.shape))
		}
		m.add("properties", props)
	case s.words != nil:
		m.add("enum", s.words)
	default:
		m.add("minimum", s.min)
		m.add("maximum", s.max)
	}
	return m
}

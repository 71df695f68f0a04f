package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An object is a decoded one of the API: maps, lists, strings, int64, float64, bool and nil.
type object = map[string]any

// decode reads JSON. Whole numbers stay whole.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return plainNumbers(v), nil
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case object:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// at is the value at a path of keys; nil where there is none.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(object)
		v = m[key]
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

// toYAML writes a value. The keys of maps are in order, so the same value is the same text.
func toYAML(v any) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(quoted(v)); err != nil {
		panic(err) // what decode and fromYAML return always encodes
	}
	_ = e.Close()
	return b.String()
}

// quoted has strings in quotes that begin with white space and have several lines: the encoder would write them as a
// block that no reader of YAML takes for the same.
func quoted(v any) any {
	switch v := v.(type) {
	case object:
		m := make(object, len(v))
		for k := range v {
			m[k] = quoted(v[k])
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i := range v {
			l[i] = quoted(v[i])
		}
		return l
	case string:
		if strings.Contains(v, "\n") && strings.TrimLeft(v, " \t\n") != v {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: v}
		}
	}
	return v
}

// separator stands between the documents of a text.
const separator = "---\n"

// fromYAML reads what toYAML wrote.
func fromYAML(s string) (object, error) {
	var v object
	if err := yaml.Unmarshal([]byte(s), &v); err != nil {
		return nil, err
	}
	return normal(v).(object), nil
}

// normal has the types that decode gives.
func normal(v any) any {
	switch v := v.(type) {
	case object:
		for k := range v {
			v[k] = normal(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case int:
		return int64(v)
	}
	return v
}

// specsOf are the specs in an entry's text, one for each CronJob. No line of a document begins with the separator:
// they are maps, and what is in them is indented.
func specsOf(s string) (all []object, err error) {
	for i, part := range strings.Split(s, "\n"+separator) {
		spec, err := fromYAML(part)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		all = append(all, spec)
	}
	return all, nil
}

func clone(v any) any {
	switch v := v.(type) {
	case object:
		m := make(object, len(v))
		for k := range v {
			m[k] = clone(v[k])
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i := range v {
			l[i] = clone(v[i])
		}
		return l
	}
	return v
}

package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// liveText is what a CronJob's spec says, as the text of an entry: what dibs applied, as it is now, and in comments
// what others have changed or added. What the server filled in belongs to nobody, and is left out.
func liveText(o object) string {
	spec, _ := project(at(o, "spec"), ownFields(o)).(object)
	if spec == nil {
		spec = object{}
	}
	return toYAML(spec) + strings.Join(strangers(o), "")
}

// ownFields are the fields of the spec that dibs applied, in the API's notation.
func ownFields(o object) object {
	for _, e := range managers(o) {
		if isOurs(e) {
			f, _ := at(e, "fieldsV1", "f:spec").(object)
			return f
		}
	}
	return nil
}

func managers(o object) (all []object) {
	list, _ := at(o, "metadata", "managedFields").([]any)
	for _, e := range list {
		if m, ok := e.(object); ok && text(m, "subresource") == "" {
			all = append(all, m)
		}
	}
	return all
}

func isOurs(e object) bool {
	return text(e, "manager") == managerName && text(e, "operation") == "Apply"
}

// strangers are comments, one for each field of the spec that somebody else has, alone or beside dibs: who applies the
// same value as dibs will be in the way of the next.
func strangers(o object) (all []string) {
	for _, e := range managers(o) {
		f, _ := at(e, "fieldsV1", "f:spec").(object)
		if isOurs(e) || f == nil {
			continue
		}
		for _, path := range leaves(f, "spec") {
			all = append(all, fmt.Sprintf("# %.100q has set %s\n", text(e, "manager"), path))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// leaves are the paths of the leaves of a set of fields.
func leaves(fields object, path string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "." {
			continue
		}
		below, _ := fields[key].(object)
		name := path + "." + strings.TrimPrefix(key, "f:")
		if !strings.HasPrefix(key, "f:") {
			name = path + "[" + key[min(2, len(key)):] + "]"
		}
		if len(below) == 0 || len(below) == 1 && below["."] != nil {
			all = append(all, name)
			continue
		}
		all = append(all, leaves(below, name)...)
	}
	return all
}

// project is the part of a value that a set of fields names.
func project(v any, fields object) any {
	if len(fields) == 0 {
		if fields == nil {
			return nil
		}
		return clone(v)
	}
	switch v := v.(type) {
	case object:
		part := object{}
		for key := range fields {
			name, ok := strings.CutPrefix(key, "f:")
			if is, there := v[name]; ok && there {
				below, _ := fields[key].(object)
				part[name] = project(is, below)
			}
		}
		return part
	case []any:
		part := []any{}
		for _, item := range v {
			if below, ok := fieldsOfItem(item, fields); ok {
				part = append(part, project(item, below))
			}
		}
		return part
	}
	return clone(v)
}

// fieldsOfItem are the fields of a list's item, which is named by its keys or its value.
func fieldsOfItem(item any, fields object) (object, bool) {
	for key := range fields {
		below, _ := fields[key].(object)
		kind, name, _ := strings.Cut(key, ":")
		want, err := decode([]byte(name))
		if err != nil {
			continue
		}
		switch kind {
		case "k":
			keys, _ := want.(object)
			if m, ok := item.(object); ok && len(keys) > 0 && has(m, keys) {
				return below, true
			}
		case "v":
			if same(want, item) {
				return object{}, true
			}
		}
	}
	return nil, false
}

func has(m, keys object) bool {
	for k, v := range keys {
		if !same(m[k], v) && !(k == "protocol" && m[k] == nil) {
			return false
		}
	}
	return true
}

func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// claimed is the list of managers after dibs took over what others have in the spec, and cronix's mark; nil where they
// have none of it. The server then removes, with the next apply, what dibs does not say.
func claimed(o object) []any {
	ours := object{"manager": managerName, "operation": "Apply", "apiVersion": "batch/v1", "fieldsType": "FieldsV1"}
	fields, more := object{}, false
	var all []any
	list, _ := at(o, "metadata", "managedFields").([]any)
	for _, item := range list {
		e, ok := item.(object)
		if !ok {
			continue
		}
		if text(e, "subresource") != "" {
			all = append(all, e)
			continue
		}
		of, _ := clone(at(e, "fieldsV1")).(object)
		if isOurs(e) {
			merge(fields, of)
			continue
		}
		if spec, ok := of["f:spec"].(object); ok {
			merge(fields, object{"f:spec": spec})
			delete(of, "f:spec")
			more = true
		}
		labels, _ := at(of, "f:metadata", "f:labels").(object)
		for key := range labels {
			if strings.HasPrefix(key, "f:"+cronixDomain) {
				merge(fields, object{"f:metadata": object{"f:labels": object{key: object{}}}})
				delete(labels, key)
				more = true
			}
		}
		if meta, _ := of["f:metadata"].(object); len(labels) == 0 { // an empty set would be the whole of the labels
			if delete(meta, "f:labels"); len(meta) == 0 {
				delete(of, "f:metadata")
			}
		}
		if len(of) > 0 {
			e = clone(e).(object)
			e["fieldsV1"] = of
			all = append(all, e)
		}
	}
	if !more {
		return nil
	}
	ours["fieldsV1"] = fields
	return append(all, ours)
}

func merge(to, from object) {
	for key, v := range from {
		was, there := to[key].(object)
		is, ok := v.(object)
		if there && ok {
			merge(was, is)
			continue
		}
		to[key] = v
	}
}

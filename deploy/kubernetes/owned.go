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
	own := ownFields(o)
	spec, _ := project(at(o, "spec"), own).(object)
	if spec == nil {
		spec = object{}
	}
	return toYAML(spec) + strings.Join(strangers(o, own), "")
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

// strangers are comments, one for each field of the spec that somebody else has and dibs has not.
func strangers(o, own object) (all []string) {
	for _, e := range managers(o) {
		f, _ := at(e, "fieldsV1", "f:spec").(object)
		if isOurs(e) || f == nil {
			continue
		}
		for _, path := range beyond(f, own, "spec") {
			all = append(all, fmt.Sprintf("# %.100q has set %s\n", text(e, "manager"), path))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// foreignFields says whether somebody else has fields of the spec that dibs has not.
func foreignFields(o object) bool { return len(strangers(o, ownFields(o))) > 0 }

// beyond are the paths of the leaves of a set of fields that another set has not.
func beyond(fields, other object, path string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "." {
			continue
		}
		below, _ := fields[key].(object)
		otherBelow, there := other[key].(object)
		name := path + "." + strings.TrimPrefix(key, "f:")
		if !strings.HasPrefix(key, "f:") {
			name = path + "[" + key[min(2, len(key)):] + "]"
		}
		switch leaf := len(below) == 0 || len(below) == 1 && below["."] != nil; {
		case leaf && !there:
			all = append(all, name)
		case !leaf && !(there && len(otherBelow) == 0): // a leaf of the other set has all that is below it
			all = append(all, beyond(below, otherBelow, name)...)
		}
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

// claimed is the list of managers after dibs took over what others have in the spec. The server then removes, with the
// next apply, what dibs does not say.
func claimed(o object) []any {
	ours := object{"manager": managerName, "operation": "Apply", "apiVersion": "batch/v1", "fieldsType": "FieldsV1"}
	fields := object{}
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
		}
		if len(of) > 0 {
			e = clone(e).(object)
			e["fieldsV1"] = of
			all = append(all, e)
		}
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

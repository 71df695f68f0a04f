package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// An op is what becomes of a CronJob.
type op int

const (
	keep op = iota
	put
	release // take the mark away
	remove
)

// An item is a CronJob, as it is and as it is to be.
type item struct {
	live object // nil: it is not there
	op   op
	id   deploy.ID // of the edit
	// want is the configuration that is put.
	want object
}

// An image is what the namespace has at one moment, by name.
type image struct {
	cluster *Cluster
	items   map[string]item
	// going are the names of those that are being deleted: nobody's any more, and not free yet.
	going []string
}

func imageOf(c *Cluster, all []object) *image {
	m := &image{cluster: c, items: map[string]item{}}
	for _, o := range all {
		name := text(o, "metadata", "name")
		if at(o, "metadata", "deletionTimestamp") != nil {
			m.going = append(m.going, name)
			continue
		}
		m.items[name] = item{live: o}
	}
	return m
}

func (m *image) names() []string { return slices.Sorted(maps.Keys(m.items)) }

// Documents are the CronJobs of the namespace, without what changes by itself.
func (m *image) Documents() (all []deploy.Document) {
	for _, name := range m.names() {
		if s := m.items[name].text(); s != "" {
			all = append(all, deploy.Document{Name: m.cluster.place(name), Exists: true, Text: s})
		}
	}
	return all
}

// text is what a CronJob will say; empty if it will not be there.
func (i item) text() string {
	switch i.op {
	case put:
		return toYAML(i.want)
	case remove:
		return ""
	case release:
		return document(unmarked(i.live), liveText(i.live))
	}
	if _, ours := readMark(i.live); ours {
		return document(onlyMark(i.live), liveText(i.live))
	}
	spec, _ := at(i.live, "spec").(object)
	return document(plainMeta(i.live), toYAML(spec))
}

// document puts a spec behind what is above it.
func document(meta object, spec string) string {
	o := toYAML(object{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta})
	return o + "spec:\n" + indent(spec)
}

func indent(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		b.WriteString("  " + l)
	}
	return b.String()
}

var (
	markLabels      = []string{managedBy, appLabel, jobLabelName}
	markAnnotations = []string{entryAnnotation, lineAnnotation, specAnnotation, textAnnotation}
)

// onlyMark is the metadata that dibs writes, as it is.
func onlyMark(o object) object {
	part := func(of string, keys []string) object {
		p := object{}
		for _, k := range keys {
			if v := at(o, "metadata", of, k); v != nil {
				p[k] = v
			}
		}
		return p
	}
	return object{"name": text(o, "metadata", "name"), "labels": part("labels", markLabels), "annotations": part("annotations", markAnnotations)}
}

func unmarked(o object) object { return object{"name": text(o, "metadata", "name")} }

// plainMeta is the metadata of somebody else's.
func plainMeta(o object) object {
	m := object{"name": text(o, "metadata", "name")}
	for _, key := range []string{"labels", "annotations"} {
		if v, ok := at(o, "metadata", key).(object); ok && len(v) > 0 {
			m[key] = v
		}
	}
	return m
}

// own are the names of an entry's CronJobs, by their lines.
func (m *image) own(id deploy.ID) (names []string, marks map[string]mark) {
	marks = map[string]mark{}
	for _, name := range m.names() {
		i := m.items[name]
		if k, ours := readMark(i.live); ours && i.op == keep && k.id == id {
			names, marks[name] = append(names, name), k
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return marks[a].line - marks[b].line })
	return names, marks
}

// Installed are the entries with a mark. What a write that was interrupted left is not edited by hand: each CronJob
// has the hash of its own text.
func (m *image) Installed() (all []deploy.Installed) {
	seen := map[deploy.ID]bool{}
	for _, i := range m.items {
		if k, ours := readMark(i.live); ours {
			seen[k.id] = true
		}
	}
	for id := range seen {
		names, marks := m.own(id)
		var texts []string
		in := deploy.Installed{ID: id, Where: "cronjob " + strings.Join(names, ", ")}
		intact := true
		for n, name := range names {
			k, s := marks[name], liveText(m.items[name].live)
			in.Where += named(strangers(m.items[name].live))
			texts = append(texts, s)
			intact = intact && deploy.TextHash(s) == k.text && !(n > 0 && marks[names[n-1]].line == k.line)
			if n == 0 {
				in.Spec = k.spec
			} else if in.Spec != k.spec {
				in.Spec = "" // of two versions: an update
			}
		}
		if in.Text = strings.Join(texts, separator); intact {
			in.TextSum = deploy.TextHash(in.Text)
		}
		all = append(all, in)
	}
	slices.SortFunc(all, func(a, b deploy.Installed) int { return a.ID.Compare(b.ID) })
	return all
}

// named are comments for people, as a part of a line: a few of them, since who has applied it all has many.
func named(comments []string) (line string) {
	const few = 3
	for n, c := range comments {
		if n == few {
			return line + fmt.Sprintf("; and %d more fields", len(comments)-few)
		}
		line += "; " + strings.TrimSpace(strings.TrimPrefix(c, "# "))
	}
	return line
}

// others are the names of the CronJobs without a mark; a Match's Refs count them.
func (m *image) others() (names []string) {
	for _, name := range m.names() {
		if _, ours := readMark(m.items[name].live); !ours && m.items[name].live != nil {
			names = append(names, name)
		}
	}
	return names
}

// Foreign are the CronJobs of others in the namespace.
func (m *image) Foreign() (all []deploy.Foreign) {
	for _, name := range m.others() {
		o := m.items[name].live
		all = append(all, deploy.Foreign{Where: "cronjob " + name, Text: strings.TrimSpace(text(o, "spec", "schedule") + " " + text(o, "spec", "timeZone"))})
	}
	return all
}

// Render is the specs of an entry's CronJobs.
func (m *image) Render(e deploy.Entry) (string, error) { return render(e) }

// Problems are none: what others change in the spec counts as an edit by hand.
func (m *image) Problems() []deploy.Problem { return nil }

// Edit says what becomes of the CronJobs. A name stays when an app is renamed.
func (m *image) Edit(edits []deploy.Edit) (deploy.Image, error) {
	to := &image{m.cluster, maps.Clone(m.items), m.going}
	others := m.others()
	for _, e := range edits {
		var names []string
		switch e.Op {
		case deploy.Take:
			for _, n := range e.Refs {
				names = append(names, others[n])
			}
			if err := to.put(e, names, true); err != nil {
				return nil, err
			}
		case deploy.Put:
			if e.Old != nil {
				names, _ = m.own(*e.Old)
			}
			if err := to.put(e, names, false); err != nil {
				return nil, err
			}
		default:
			names, _ = m.own(e.ID)
			becomes := remove
			if e.Op == deploy.Unmark {
				becomes = release
			}
			for _, name := range names {
				to.items[name] = item{live: m.items[name].live, op: becomes, id: e.ID}
			}
		}
	}
	return to, nil
}

// put gives an entry's CronJobs to those that it has already, each to that of its line, and makes the others. What is
// left over goes.
func (m *image) put(e deploy.Edit, have []string, take bool) error {
	specs, err := specsOf(e.Text)
	if err != nil {
		return fmt.Errorf("%s: %w", e.ID, err)
	}
	if take && len(have) > len(specs) {
		return fmt.Errorf("%s: %d CronJobs do what %d are to do: delete the others", e.ID, len(have), len(specs))
	}
	for n, spec := range specs {
		at := slices.IndexFunc(have, func(name string) bool {
			k, ours := readMark(m.items[name].live)
			return !ours || k.line == n
		})
		name := nameOf(e.ID, n)
		if at >= 0 {
			name = have[at]
			have = slices.Delete(slices.Clone(have), at, at+1)
		} else if i, there := m.items[name]; there && (i.op == keep || i.op == put) {
			return fmt.Errorf("%s: cronjob %s is there and is not dibs's, or another entry's: delete it, or adopt it", e.ID, name)
		} else if slices.Contains(m.going, name) {
			return fmt.Errorf("%s: cronjob %s is being deleted: apply again when it is gone", e.ID, name)
		}
		i := m.items[name]
		want := marked(name, e.ID, n, e.Spec, spec)
		if !take && i.live != nil && i.text() == toYAML(want) {
			continue // this one is as it is to be
		}
		m.items[name] = item{live: i.live, op: put, id: e.ID, want: want}
	}
	for _, name := range have {
		m.items[name] = item{live: m.items[name].live, op: remove, id: e.ID}
	}
	return nil
}

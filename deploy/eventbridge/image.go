package eventbridge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// An item is a schedule in its place.
type item struct {
	group, name, description string
	definition               definition
}

func (i item) where() string { return i.group + "/" + i.name }

// text is all of it but its place.
func (i item) text() string {
	data, err := write([]definition{i.definition})
	if err != nil {
		return err.Error() // a raw part that is no JSON; the API answers none
	}
	if i.description != "" {
		return "# " + strings.ReplaceAll(i.description, "\n", "\n# ") + "\n" + data
	}
	return data
}

// An image is the app's group at one moment, and cronix's schedules of the app elsewhere if they were asked for.
type image struct {
	of     *Schedules
	exists bool // the group, with its tag
	items  []item
}

func sortItems(all []item) {
	slices.SortFunc(all, func(a, b item) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name)) })
}

// own says which entry a schedule belongs to. One that somebody copied under another name is foreign.
func (m *image) own(i item) (mark, bool) {
	k, ok := readMark(i.description)
	return k, ok && i.group == m.of.group && i.name == nameOf(k.id, k.part)
}

// Documents are the group and the schedules.
func (m *image) Documents() (all []deploy.Document) {
	if m.exists {
		all = append(all, deploy.Document{Name: m.of.group, Exists: true, Text: "tag " + tagKey + "=" + m.of.app + "\n"})
	}
	for _, i := range m.items {
		all = append(all, deploy.Document{Name: i.where(), Exists: true, Text: i.text()})
	}
	return all
}

// Installed are the entries whose schedules have a mark.
func (m *image) Installed() (all []deploy.Installed) {
	parts := map[deploy.ID][]item{}
	for _, i := range m.items {
		if k, ok := m.own(i); ok {
			parts[k.id] = append(parts[k.id], i)
		}
	}
	for id, items := range parts {
		slices.SortFunc(items, func(a, b item) int {
			x, _ := m.own(a)
			y, _ := m.own(b)
			return cmp.Compare(x.part, y.part)
		})
		first, _ := m.own(items[0])
		whole := len(items) == first.of
		var schedules []definition
		for _, i := range items {
			k, _ := m.own(i)
			whole = whole && k.spec == first.spec && k.text == first.text && k.of == first.of
			schedules = append(schedules, i.definition)
		}
		text, _ := write(schedules)
		if !whole { // what an apply left that was interrupted: nobody edited it, and the next one writes it anew
			first.spec, first.text = "", deploy.TextHash(text)
		}
		all = append(all, deploy.Installed{ID: id, Spec: first.spec, TextSum: first.text, Text: text, Where: items[0].where()})
	}
	slices.SortFunc(all, func(a, b deploy.Installed) int { return a.ID.Compare(b.ID) })
	return all
}

// others are the schedules that are not dibs's; Refs count them.
func (m *image) others() (all []item) {
	for _, i := range m.items {
		if _, ours := m.own(i); !ours {
			all = append(all, i)
		}
	}
	return all
}

// Foreign are those of them that are enabled.
func (m *image) Foreign() (all []deploy.Foreign) {
	for _, i := range m.others() {
		if i.definition.State != disabled {
			all = append(all, deploy.Foreign{Where: i.where(), Text: fires(i.definition)})
		}
	}
	return all
}

const disabled = "DISABLED"

func fires(s definition) string { return s.Expression + " " + s.Zone }

// Render is an entry's schedules.
func (m *image) Render(e deploy.Entry) (string, error) {
	all, err := m.of.options.definitions(e)
	if err != nil {
		return "", err
	}
	return write(all)
}

// Match finds cronix's schedule for e in any group, or else schedules of the app's group that are the same as e's
// would be, whatever their names.
func (m *image) Match(e deploy.Entry) (found deploy.Match, err error) {
	wanted, err := m.of.options.definitions(e)
	if err != nil {
		return found, err
	}
	if found = m.cronix(e); len(found.Refs)+len(found.Near) > 0 {
		return found, nil
	}
	var places []string
	for _, w := range wanted {
		text := item{definition: w}.text()
		at := slices.IndexFunc(m.others(), func(i item) bool {
			i.description = ""
			return i.group == m.of.group && i.text() == text && !slices.Contains(places, i.where())
		})
		if at >= 0 {
			found.Refs = append(found.Refs, at)
			places = append(places, m.others()[at].where())
		}
	}
	if n := len(found.Refs); n < len(wanted) {
		found.Refs = nil
		if n > 0 {
			found.Near = append(found.Near, fmt.Sprintf("%d of its %d schedules are there", n, len(wanted)))
		}
		return found, nil
	}
	found.Note, found.Guarded = strings.Join(places, ", "), true
	return found, nil
}

const cronixMark = "cronix-managed "

// cronix finds the schedule that cronix marked for the same app, job and index. It is taken over though it fires at
// other times; the note says so.
func (m *image) cronix(e deploy.Entry) (found deploy.Match) {
	for n, i := range m.others() {
		if !cronixOwns(i.description, e.ID) {
			continue
		}
		switch {
		case i.definition.State == disabled:
			found.Near = append(found.Near, i.where()+" is cronix's for it, and is disabled: enable it or delete it")
		case len(found.Refs) > 0:
			twice := []string{fmt.Sprintf("%s and %s are both marked by cronix for it: delete one of them", m.others()[found.Refs[0]].where(), i.where())}
			return deploy.Match{Near: twice, Also: twice}
		default:
			found.Refs = []int{n}
			found.Note = i.where() + ", cronix's"
			if was, will := fires(i.definition), strings.Join(e.When, " and "); was != will {
				found.Note += fmt.Sprintf(": it fired at %s, and now fires at %s", was, will)
			}
		}
	}
	return found
}

func cronixOwns(description string, id deploy.ID) bool {
	rest, ok := strings.CutPrefix(description, cronixMark)
	has := map[string]string{}
	for _, f := range strings.Fields(rest) {
		key, value, _ := strings.Cut(f, "=")
		has[key] = value
	}
	return ok && has["app"] == id.App && has["job"] == id.Job && has["idx"] == fmt.Sprint(id.Index)
}

// Edit changes the items.
func (m *image) Edit(edits []deploy.Edit) (deploy.Image, error) {
	to := &image{of: m.of, exists: m.exists, items: slices.Clone(m.items)}
	for _, e := range edits {
		if err := to.edit(e, m.others()); err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
	}
	sortItems(to.items)
	return to, nil
}

func (m *image) edit(e deploy.Edit, others []item) error {
	of := func(id deploy.ID) func(item) bool {
		return func(i item) bool { k, ok := m.own(i); return ok && k.id == id }
	}
	switch e.Op {
	case deploy.Put:
		if e.Old != nil {
			m.items = slices.DeleteFunc(m.items, of(*e.Old))
		}
		return m.put(e)
	case deploy.Take:
		for _, ref := range e.Refs {
			m.items = slices.DeleteFunc(m.items, func(i item) bool { return i.where() == others[ref].where() })
		}
		return m.put(e)
	case deploy.Remove:
		m.items = slices.DeleteFunc(m.items, of(e.ID))
	case deploy.Unmark:
		mine := of(e.ID)
		for n := range m.items {
			if mine(m.items[n]) {
				m.items[n].description = ""
			}
		}
	}
	return nil
}

func (m *image) put(e deploy.Edit) error {
	var schedules []definition
	if err := json.Unmarshal([]byte(e.Text), &schedules); err != nil {
		return err
	}
	m.exists = true
	for n, s := range schedules {
		k := mark{id: e.ID, part: n + 1, of: len(schedules), spec: e.Spec, text: deploy.TextHash(e.Text)}
		i := item{m.of.group, nameOf(e.ID, n+1), k.String(), s}
		if slices.ContainsFunc(m.items, func(there item) bool { return there.where() == i.where() }) {
			return errors.New(i.where() + " is there and is not dibs's: adopt it, or delete it")
		}
		m.items = append(m.items, i)
	}
	return nil
}

// Problems are none: what a schedule does is all its own.
func (m *image) Problems() []deploy.Problem { return nil }

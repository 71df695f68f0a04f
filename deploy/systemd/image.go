package systemd

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

const (
	markBegin = "# dibs:entry "
	notice    = " (written by dibs: change the manifest)\n"

	timerEnd   = ".timer"
	serviceEnd = ".service"
	wants      = "timers.target.wants"
	// pending is there while systemd does not know of what was written.
	pending = ".dibs-reload"
)

// An image is what the directory has at one moment.
type image struct {
	of *Units
	// files are those that begin with dibs-, by name; enabled are the timers with a link, there or not; untold says
	// that systemd does not know of all of it.
	files   map[string]string
	enabled map[string]bool
	untold  bool
	// others are units that are not dibs's: all timers, and those with a name that dibs would give.
	others []string
	// beside are the files that may change a unit of dibs.
	beside []dropin
}

// Documents are the units, the links and what is still to be told.
func (m *image) Documents() (all []deploy.Document) {
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		all = append(all, deploy.Document{Name: filepath.Join(m.of.dir, name), Exists: true, Text: m.files[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.enabled)) {
		all = append(all, deploy.Document{Name: filepath.Join(m.of.dir, wants, name), Exists: true, Text: "-> ../" + name + "\n"})
	}
	if m.untold {
		all = append(all, deploy.Document{Name: filepath.Join(m.of.dir, pending), Exists: true, Text: "systemd is to be told\n"})
	}
	return all
}

// Installed are the timers with a mark. Without its service, or its link, an entry's text is not the one that was
// written.
func (m *image) Installed() (all []deploy.Installed) {
	for name, text := range m.files {
		base, timer := strings.CutSuffix(name, timerEnd)
		id, spec, sum, body, ok := readMark(text)
		if !timer || !ok || unit(id) != base {
			continue
		}
		_, _, _, service, _ := readMark(m.files[base+serviceEnd])
		body += between + service
		if !m.enabled[name] {
			body += disabled
		}
		all = append(all, deploy.Installed{ID: id, Spec: spec, TextSum: sum, Text: body, Where: name})
	}
	slices.SortFunc(all, func(a, b deploy.Installed) int { return a.ID.Compare(b.ID) })
	return all
}

// readMark takes the first line off a unit of dibs.
func readMark(text string) (id deploy.ID, spec, sum, body string, ok bool) {
	first, body, _ := strings.Cut(text, "\n")
	rest, ok := strings.CutPrefix(first, markBegin)
	if !ok {
		return id, "", "", text, false
	}
	rest, _, _ = strings.Cut(rest, "(")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return id, "", "", text, false
	}
	id, err := deploy.ParseID(fields[0])
	for _, f := range fields[1:] {
		switch key, value, _ := strings.Cut(f, "="); key { // others are of later versions
		case "spec":
			spec = value
		case "text":
			sum = value
		}
	}
	return id, spec, sum, body, err == nil
}

// Foreign are the timers of others in the directory.
func (m *image) Foreign() (all []deploy.Foreign) {
	for _, name := range m.others {
		if strings.HasSuffix(name, timerEnd) {
			all = append(all, deploy.Foreign{Where: name})
		}
	}
	return all
}

// Render is an entry's timer and service.
func (m *image) Render(e deploy.Entry) (string, error) { return m.of.render(e) }

// Match takes nothing over, since what a unit of others does is not read. It says where cronix has a timer for e.
func (m *image) Match(e deploy.Entry) (found deploy.Match, err error) {
	name := fmt.Sprintf("cronix-%s-%s-%d%s", e.App, e.Job, e.Index, timerEnd)
	if slices.Contains(m.others, name) {
		found.Also = append(found.Also, name+" is cronix's for it, and is not taken over: disable it (systemctl disable --now), and apply")
	}
	found.Near = found.Also
	_, err = m.of.render(e)
	return found, err
}

// Edit changes the units. Write tells the manager of the changes, so the new image has nothing left to be told.
func (m *image) Edit(edits []deploy.Edit) (deploy.Image, error) {
	to := &image{of: m.of, files: maps.Clone(m.files), enabled: maps.Clone(m.enabled), others: m.others, beside: m.beside}
	for _, e := range edits {
		base := unit(e.ID)
		switch e.Op {
		case deploy.Put:
			if e.Old != nil {
				to.drop(unit(*e.Old))
			}
			for _, end := range []string{timerEnd, serviceEnd} {
				if slices.Contains(m.others, base+end) {
					return nil, fmt.Errorf("%s: %s exists and does not belong to dibs: move it away", e.ID, base+end)
				}
			}
			timer, service, _ := strings.Cut(e.Text, between)
			to.files[base+timerEnd] = markBegin + e.ID.String() + " spec=" + e.Spec + " text=" + deploy.TextHash(e.Text) + notice + timer
			to.files[base+serviceEnd] = markBegin + e.ID.String() + notice + service
			to.enabled[base+timerEnd] = true
		case deploy.Remove:
			to.drop(base)
		case deploy.Unmark:
			for _, end := range []string{timerEnd, serviceEnd} {
				if text, there := to.files[base+end]; there {
					_, _, _, to.files[base+end], _ = readMark(text)
				}
			}
		default:
			return nil, errors.New("units of other programs cannot be taken over")
		}
	}
	for name := range to.files { // what a removal that was interrupted left
		base, service := strings.CutSuffix(name, serviceEnd)
		if _, timer := to.files[base+timerEnd]; service && !timer {
			delete(to.files, name)
		}
	}
	for name := range to.enabled {
		if _, there := to.files[name]; !there {
			delete(to.enabled, name)
		}
	}
	return to, nil
}

func (m *image) drop(base string) {
	delete(m.files, base+timerEnd)
	delete(m.files, base+serviceEnd)
	delete(m.enabled, base+timerEnd)
}

// Problems are what changes a unit beside its file, and users that the system does not have.
func (m *image) Problems() (all []deploy.Problem) {
	for _, i := range m.Installed() {
		for _, end := range []string{timerEnd, serviceEnd} {
			name := unit(i.ID) + end
			for _, d := range m.beside {
				if d.changes(name, m.files[name]) {
					all = append(all, deploy.Problem{ID: i.ID, Text: fmt.Sprintf("%s changes what its unit does: remove it", d.path)})
				}
			}
		}
		if why := m.of.userless(i.Text); why != "" {
			all = append(all, deploy.Problem{ID: i.ID, Text: why})
		}
	}
	return all
}

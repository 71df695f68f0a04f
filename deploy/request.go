package deploy

import (
	"errors"
	"fmt"
	"slices"
)

// A Request is Install, Prune, Adopt or Eject.
type Request interface {
	plan(Image) ([]Step, error)
}

// An Action is what happens to an entry.
type Action string

// The actions. Those from Unchanged on write nothing.
const (
	Create   Action = "create"
	Update   Action = "update"   // the specification changed, or the app's name
	Rerender Action = "rerender" // another version of dibs wrote the text
	Delete   Action = "delete"
	Adopted  Action = "adopt"
	Ejected  Action = "eject"

	Unchanged Action = "unchanged"
	Edited    Action = "edited" // by hand, and kept: Overwrite takes it back
	Stale     Action = "stale"  // no longer wanted: Prune deletes it
	Unmatched Action = "unmatched"
)

// A Step is what a plan does with one entry.
type Step struct {
	Action Action `json:"action"`
	ID     ID     `json:"-"`
	Entry  string `json:"entry"` // the ID as text
	// Reason says why, or what was found; it may be empty.
	Reason string `json:"reason,omitempty"`

	edit *Edit
}

// Changes reports whether the step writes anything.
func (s Step) Changes() bool { return s.edit != nil }

func step(a Action, id ID, reason string, e *Edit) Step {
	return Step{Action: a, ID: id, Entry: id.String(), Reason: reason, edit: e}
}

// Install creates and updates the entries of one app. It deletes nothing: an installed entry that is no longer
// wanted is Stale in the plan.
type Install struct {
	App string
	// Formerly are names that the app had before. Entries with such a name in their mark become App's in place.
	Formerly []string
	// Entries are all entries that App should have in this target, in any order.
	Entries []Entry
	// Overwrite replaces entries that were edited by hand. Without it they are kept and reported.
	Overwrite bool
}

// Prune deletes the entries of an app, under its name and former names, that are no longer wanted, and changes
// nothing else. Without Entries it deletes all of the app's.
type Prune struct {
	App      string
	Formerly []string
	Entries  []Entry
	// Overwrite also deletes entries that were edited by hand.
	Overwrite bool
}

// Adopt takes over foreign entries that do what these entries do, and entries of cronix for the same app, job and
// index. It leaves entries alone that are already installed.
type Adopt struct{ Entries []Entry }

// Eject turns entries into plain ones: it removes the mark and keeps the text. The target fires exactly what it
// fired before.
type Eject struct {
	App string
	// Jobs are the jobs to eject; none: all of the app's.
	Jobs []string
}

// checkEntries refuses what no target can have.
func checkEntries(app string, entries []Entry) error {
	var errs []error
	seen := map[ID]bool{}
	for _, e := range entries {
		err := e.ID.check()
		switch {
		case err != nil:
		case app != "" && e.App != app:
			err = fmt.Errorf("%s is not an entry of %s", e.ID, app)
		case seen[e.ID]:
			err = fmt.Errorf("%s is there twice", e.ID)
		case len(e.When) == 0:
			err = fmt.Errorf("%s has no schedule", e.ID)
		case len(e.Command) == 0:
			err = fmt.Errorf("%s has no command", e.ID)
		}
		seen[e.ID] = true
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func sorted(entries []Entry) []Entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return a.ID.Compare(b.ID) })
}

// ours returns the installed entries of the app, under all of its names.
func ours(image Image, app string, formerly []string) (own []Installed, names []string) {
	names = append([]string{app}, formerly...)
	for _, i := range image.Installed() {
		if slices.Contains(names, i.ID.App) {
			own = append(own, i)
		}
	}
	return own, names
}

// found returns the installed entry of a desired one, under the app's name or a former one.
func found(own []Installed, names []string, id ID) *Installed {
	for _, app := range names {
		id.App = app
		if i := slices.IndexFunc(own, func(i Installed) bool { return i.ID == id }); i >= 0 {
			return &own[i]
		}
	}
	return nil
}

func (r Install) plan(image Image) ([]Step, error) {
	if err := checkEntries(r.App, r.Entries); err != nil {
		return nil, err
	}
	own, names := ours(image, r.App, r.Formerly)
	kept := map[ID]bool{}
	var steps []Step
	var errs []error
	for _, e := range sorted(r.Entries) {
		text, err := image.Render(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.ID, err))
			continue
		}
		i := found(own, names, e.ID)
		if i != nil {
			kept[i.ID] = true
		}
		steps = append(steps, r.compare(e, text, i))
	}
	for _, i := range own {
		if !kept[i.ID] {
			steps = append(steps, step(Stale, i.ID, i.Where+": no longer in the manifest; prune deletes it", nil))
		}
	}
	return steps, errors.Join(errs...)
}

// compare decides what happens to one entry.
func (r Install) compare(e Entry, text string, i *Installed) Step {
	put := &Edit{Op: Put, ID: e.ID, Spec: e.SpecHash(), Text: text}
	if i == nil {
		return step(Create, e.ID, "", put)
	}
	put.Old = &i.ID
	// The specification contains the app, so it is compared under the name that the mark has.
	was := e
	was.App = i.ID.App
	switch {
	case i.Edited() && i.Text != text && !r.Overwrite:
		return step(Edited, e.ID, i.Where+": edited by hand, and kept; overwrite replaces it", nil)
	case i.Edited():
		return step(Update, e.ID, i.Where+": edited by hand", put)
	case i.ID != e.ID:
		return step(Update, e.ID, fmt.Sprintf("%s: renamed from %s", i.Where, i.ID), put)
	case i.Spec != was.SpecHash():
		return step(Update, e.ID, i.Where, put)
	case i.Text != text:
		return step(Rerender, e.ID, i.Where+": written by another version of dibs", put)
	}
	return step(Unchanged, e.ID, i.Where, nil)
}

func (r Prune) plan(image Image) ([]Step, error) {
	if err := checkEntries(r.App, r.Entries); err != nil {
		return nil, err
	}
	own, names := ours(image, r.App, r.Formerly)
	kept := map[ID]bool{}
	for _, e := range r.Entries {
		if i := found(own, names, e.ID); i != nil {
			kept[i.ID] = true
		}
	}
	var steps []Step
	for _, i := range own {
		switch {
		case kept[i.ID]:
		case i.Edited() && !r.Overwrite:
			steps = append(steps, step(Edited, i.ID, i.Where+": edited by hand, and kept; overwrite deletes it", nil))
		default:
			steps = append(steps, step(Delete, i.ID, i.Where, &Edit{Op: Remove, ID: i.ID}))
		}
	}
	return steps, nil
}

func (r Adopt) plan(image Image) ([]Step, error) {
	if err := checkEntries("", r.Entries); err != nil {
		return nil, err
	}
	var steps []Step
	var errs []error
	taken := map[int]ID{}
	for _, e := range sorted(r.Entries) {
		s, err := adopt(image, e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.ID, err))
			continue
		}
		if s.edit != nil {
			for _, ref := range s.edit.Refs {
				if by, twice := taken[ref]; twice { // two jobs of one meaning: which of them it is, nobody can say
					errs = append(errs, fmt.Errorf("%s and %s would take over the same entry: adopt one of them", by, e.ID))
				}
				taken[ref] = e.ID
			}
		}
		steps = append(steps, s)
	}
	return steps, errors.Join(errs...)
}

func adopt(image Image, e Entry) (Step, error) {
	own, names := ours(image, e.App, nil)
	if i := found(own, names, e.ID); i != nil {
		return step(Unchanged, e.ID, i.Where+": installed already", nil), nil
	}
	text, err := image.Render(e)
	if err != nil {
		return Step{}, err
	}
	m, err := image.Match(e)
	if err != nil {
		return Step{}, err
	}
	if len(m.Refs) == 0 {
		reason := "nothing there provably does the same"
		for _, near := range m.Near {
			reason += "; " + near
		}
		return step(Unmatched, e.ID, reason, nil), nil
	}
	return step(Adopted, e.ID, m.Note, &Edit{Op: Take, ID: e.ID, Refs: m.Refs, Spec: e.SpecHash(), Text: text}), nil
}

func (r Eject) plan(image Image) ([]Step, error) {
	var steps []Step
	own, _ := ours(image, r.App, nil)
	for _, i := range own {
		if len(r.Jobs) == 0 || slices.Contains(r.Jobs, i.ID.Job) {
			steps = append(steps, step(Ejected, i.ID, i.Where, &Edit{Op: Unmark, ID: i.ID}))
		}
	}
	return steps, nil
}

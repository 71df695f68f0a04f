package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// A Plan is what a request would do to a target. When Apply returns it, it is what Apply did.
type Plan struct {
	Target string `json:"target"`
	// Steps are in order of the entries' IDs; entries that are no longer wanted come last.
	Steps []Step `json:"steps"`
	// Foreign are the active entries that are not dibs's, before the plan. Only an Adopt takes any of them over.
	Foreign []Foreign `json:"foreign"`
	// Diff is a unified diff of the documents; empty if nothing is to be written. It has the target's own bytes:
	// escape control characters before a terminal shows it.
	Diff string `json:"diff"`
	// Hash is the same for the same steps on the same text of the same target. Apply can insist on it.
	Hash string `json:"hash"`
	// Problems are the problems of all of dibs's entries in the target. Apply refuses a request whose own entries
	// have problems, or that would cause new ones for others.
	Problems []Problem `json:"-"`

	before, after Image
}

// Changes reports whether there is anything to write.
func (p *Plan) Changes() bool {
	was, is := p.before.Documents(), p.after.Documents()
	if len(was) != len(is) {
		return true
	}
	for i := range was {
		if was[i] != is[i] {
			return true
		}
	}
	return false
}

// Installed returns the entries with dibs's mark that the target had before the plan.
func (p *Plan) Installed() []Installed { return p.before.Installed() }

// Texts returns the texts of the target's documents before and after the plan.
func (p *Plan) Texts() (before, after []string) {
	for _, d := range p.before.Documents() {
		before = append(before, d.Text)
	}
	for _, d := range p.after.Documents() {
		after = append(after, d.Text)
	}
	return before, after
}

// Match returns which foreign entries of the target, before the plan, do what an entry does.
func (p *Plan) Match(e Entry) (Match, error) { return p.before.Match(e) }

// Clean reports whether the target has exactly what is wanted: nothing to write, nothing edited by hand or stale,
// and nothing that keeps an entry from doing what its text says. `dibs drift` calls it on the plan of an Install.
func (p *Plan) Clean() bool {
	for _, s := range p.Steps {
		if s.Action != Unchanged {
			return false
		}
	}
	return !p.Changes() && len(p.Problems) == 0
}

// Prepare plans a request. It writes nothing and takes no lock. The error lists all that the target cannot express.
func Prepare(ctx context.Context, t Target, r Request) (*Plan, error) {
	p, err := prepare(ctx, t, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return p, nil
}

func prepare(ctx context.Context, t Target, r Request) (*Plan, error) {
	before, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := r.plan(before)
	if err != nil {
		return nil, err
	}
	var edits []Edit
	for _, s := range steps {
		if s.edit != nil {
			edits = append(edits, *s.edit)
		}
	}
	after, err := before.Edit(edits)
	if err != nil {
		return nil, err
	}
	p := &Plan{Target: t.String(), Steps: append([]Step{}, steps...), Foreign: append([]Foreign{}, before.Foreign()...), before: before, after: after, Problems: after.Problems()}
	p.Diff, p.Hash = p.diff(), p.hash()
	return p, nil
}

func (p *Plan) diff() string {
	var b strings.Builder
	was := map[string]Document{}
	for _, d := range p.before.Documents() {
		was[d.Name] = d
	}
	for _, d := range p.after.Documents() {
		old := was[d.Name]
		delete(was, d.Name)
		b.Write(differ(d.Name, old, d))
	}
	for _, d := range p.before.Documents() {
		if old, gone := was[d.Name]; gone {
			b.Write(differ(d.Name, old, Document{}))
		}
	}
	return b.String()
}

func differ(name string, was, is Document) []byte {
	from, to := name, name
	if !was.Exists {
		from = "/dev/null"
	}
	if !is.Exists {
		to = "/dev/null"
	}
	return diff.Diff(from, []byte(was.Text), to, []byte(is.Text))
}

func (p *Plan) hash() string {
	parts := []string{"plan 1", p.Target}
	for _, s := range p.Steps {
		parts = append(parts, string(s.Action), s.Entry)
	}
	for _, image := range []Image{p.before, p.after} {
		for _, d := range image.Documents() {
			parts = append(parts, d.Name, fmt.Sprint(d.Exists), d.Text)
		}
		parts = append(parts, "end")
	}
	return hashOf(parts...)
}

// Check asks the target's server whether it would accept what the plan writes, if the target can ask. Apply does so
// itself.
func (p *Plan) Check(ctx context.Context, t Target) error {
	c, ok := t.(Checker)
	if !ok || !p.Changes() {
		return nil
	}
	if err := c.Check(ctx, p.after); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	return nil
}

// Apply plans a request and carries it out, under the target's lock. With a hash it does so only if the plan has
// that hash; otherwise the error wraps ErrChanged. If there is nothing to write, it writes nothing, and the plan's
// Changes returns false. If the writing fails, Apply returns the plan with the error.
func Apply(ctx context.Context, t Target, r Request, hash string) (*Plan, error) {
	unlock, err := t.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	defer unlock()
	p, err := Prepare(ctx, t, r)
	switch {
	case err != nil:
		return nil, err
	case hash != "" && p.Hash != hash:
		return p, fmt.Errorf("%s: the plan is now %s, not %s: %w; look at the new plan", t, p.Hash, hash, ErrChanged)
	}
	if err := p.refused(); err != nil {
		return p, fmt.Errorf("%s: %w", t, err)
	}
	if !p.Changes() {
		return p, nil
	}
	if err := t.Write(ctx, p.before, p.after); err != nil {
		return p, fmt.Errorf("%s: %w", t, err)
	}
	return p, nil
}

// refused returns the problems that this plan would cause, or leave in entries that it promises to work. An existing
// problem of another app's entry does not prevent this app's entries from being installed.
func (p *Plan) refused() error {
	known := map[ID]bool{}
	for _, was := range p.before.Problems() {
		known[was.ID] = true
	}
	for _, s := range p.Steps {
		known[s.ID] = known[s.ID] && s.Action == Stale
	}
	var errs []error
	for _, is := range p.Problems {
		if !known[is.ID] {
			errs = append(errs, fmt.Errorf("%s: %s", is.ID, is.Text))
		}
	}
	return errors.Join(errs...)
}

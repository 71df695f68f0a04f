package crontab

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// A candidate is a foreign entry with the variables that count for it.
type candidate struct {
	n   int
	l   line
	env map[string]setting
}

func (m *image) candidates() (all []candidate) {
	m.walk(func(p part, env map[string]setting) {
		if p.block != nil {
			return
		}
		if l := readLine(bare(p.raw), m.system); l.kind == entry {
			all = append(all, candidate{p.n, l, maps.Clone(env)})
		}
	})
	return all
}

// Match finds cronix's entry for e, or else lines that do the same as e's text would in their place: the same
// schedule, user and command, word for word, and the same value of every variable.
func (m *image) Match(e deploy.Entry) (deploy.Match, error) {
	text, err := m.render(e)
	if err != nil {
		return deploy.Match{}, err
	}
	if found := m.cronix(e); len(found.Refs)+len(found.Near) > 0 {
		return found, nil
	}
	var settings map[string]setting
	var lines []line
	settings = map[string]setting{}
	for _, raw := range splitLines(text) {
		switch l := readLine(bare(raw), m.system); l.kind {
		case variable:
			settings[l.name] = setting{value: l.value}
		case entry:
			lines = append(lines, l)
		}
	}
	found, err := m.matchLines(lines, settings)
	if err != nil || len(found.Refs) > 0 || e.Plain == nil {
		return found, err
	}
	plain := m.matchPlain(*e.Plain)
	plain.Near = append(found.Near, plain.Near...)
	return plain, nil
}

func (m *image) matchLines(lines []line, settings map[string]setting) (found deploy.Match, err error) {
	missing := slices.Clone(lines)
	var first map[string]string
	for _, c := range m.candidates() {
		is, err := m.mean(c.l, c.env)
		if err != nil {
			continue // what is not understood is not proven
		}
		over := maps.Clone(c.env)
		maps.Copy(over, settings)
		why := "another schedule"
		for i, l := range missing {
			want, err := m.mean(l, over)
			if err != nil {
				return found, fmt.Errorf("its own line cannot be compared: %w", err)
			}
			if why = differ(is, want); why != "" {
				continue
			}
			if first == nil {
				first = is.env
			}
			if !maps.Equal(first, is.env) {
				why = "other variables than the lines before it"
				continue
			}
			found.Refs = append(found.Refs, c.n)
			missing = slices.Delete(missing, i, i+1)
			break
		}
		if why != "" && slices.Equal(is.args, argsOf(lines[0])) {
			found.Near = append(found.Near, fmt.Sprintf("line %d has the same command and %s", c.n, why))
		}
	}
	if len(missing) > 0 {
		if len(found.Refs) > 0 {
			found.Near = append(found.Near, fmt.Sprintf("%d of its %d lines are there", len(found.Refs), len(lines)))
		}
		found.Refs = nil
		return found, nil
	}
	found.Note, found.Guarded = places(found.Refs), true
	return found, nil
}

func argsOf(l line) []string {
	m, _ := (&image{}).mean(l, nil)
	return m.args
}

func places(refs []int) string {
	var s []string
	for _, n := range refs {
		s = append(s, fmt.Sprint(n))
	}
	return "line " + strings.Join(s, ", ")
}

// differ says how two meanings differ, or nothing. It names variables, and no values.
func differ(is, want meaning) string {
	switch {
	case is.when != want.when:
		return "another schedule"
	case is.user != want.user:
		return "another user"
	case !slices.Equal(is.args, want.args):
		return "another command"
	}
	names := maps.Clone(is.env)
	maps.Copy(names, want.env)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, there := is.env[name]
		will, here := want.env[name]
		if was != will || there != here {
			return "another value of the variable " + name
		}
	}
	return ""
}

const cronixMark = "# cronix:owned "

// cronix finds the entry that cronix marked for the same app, job and index: its comment is on the line below.
// It is taken over though its text differs; the note says when it fired.
func (m *image) cronix(e deploy.Entry) (found deploy.Match) {
	for i, p := range m.table {
		if p.block != nil || !cronixOwns(p.raw, e.ID) {
			continue
		}
		if i == 0 || m.table[i-1].block != nil || !cronixFires(m.table[i-1].raw, e.ID) {
			found.Near = append(found.Near, fmt.Sprintf("line %d is cronix's mark for it, and the line above is not cronix's entry for it: delete the mark", p.n))
			continue
		}
		above := m.table[i-1]
		// cronix writes no user, also where cron expects one, so only the schedule is read.
		when := readLine(bare(above.raw), false).when
		if len(found.Refs) > 0 {
			twice := []string{fmt.Sprintf("lines %d and %d are both marked by cronix for it: delete one of them with its mark", found.Refs[0], above.n)}
			return deploy.Match{Near: twice, Also: twice}
		}
		found.Refs = []int{above.n, p.n}
		found.Note = fmt.Sprintf("line %d, cronix's", above.n)
		if will := strings.Join(e.When, " and "); will != when {
			found.Note += fmt.Sprintf(": it fired at %s, and now fires at %s", when, will)
		}
	}
	return found
}

func cronixOwns(raw string, id deploy.ID) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(raw), cronixMark)
	if !ok {
		return false
	}
	has := map[string]string{}
	for _, f := range strings.Fields(rest) {
		key, value, _ := strings.Cut(f, "=")
		has[key] = value
	}
	return has["app"] == id.App && has["job"] == id.Job && has["idx"] == fmt.Sprint(id.Index)
}

// cronixFires reports whether a line is active and calls cronix for the job.
func cronixFires(raw string, id deploy.ID) bool {
	l := readLine(bare(raw), false)
	if l.kind != entry {
		return false
	}
	fields := strings.Fields(l.rest)
	at := slices.IndexFunc(fields, func(f string) bool { return path.Base(f) == "cronix" })
	return at >= 0 && slices.Contains(fields[at:], "trigger") && slices.Contains(fields[at:], id.App+"."+id.Job)
}

package crontab

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// An image is one crontab at one moment.
type image struct {
	layout
	name   string // of the document
	exists bool
	// shut is why cron does not read the file at all, whatever its text.
	shut  string
	table table
}

func newImage(l layout, name string, exists bool, text string) (*image, error) {
	t, err := parse(text)
	if err != nil {
		return nil, err
	}
	return &image{layout: l, name: name, exists: exists, table: t}, nil
}

// Documents is the one text.
func (m *image) Documents() []deploy.Document {
	return []deploy.Document{{Name: m.name, Exists: m.exists, Text: m.table.String()}}
}

// Installed are the blocks.
func (m *image) Installed() (all []deploy.Installed) {
	for _, p := range m.table {
		if p.block != nil {
			all = append(all, deploy.Installed{ID: p.id, Spec: p.spec, TextSum: p.mark.text, Text: p.body, Where: fmt.Sprintf("line %d", p.n)})
		}
	}
	slices.SortFunc(all, func(a, b deploy.Installed) int { return a.ID.Compare(b.ID) })
	return all
}

// Foreign are the entries of others.
func (m *image) Foreign() (all []deploy.Foreign) {
	for _, p := range m.table {
		if p.block == nil && readLine(bare(p.raw), m.system).kind == entry {
			all = append(all, deploy.Foreign{Where: fmt.Sprintf("line %d", p.n), Text: bare(p.raw)})
		}
	}
	return all
}

// Render is the text of a block.
func (m *image) Render(e deploy.Entry) (string, error) { return m.render(e) }

// Edit changes the blocks. A file of dibs's own goes with its last byte, and so does a user's table.
func (m *image) Edit(edits []deploy.Edit) (deploy.Image, error) {
	if len(edits) == 0 {
		return m, nil
	}
	// Places are line numbers of this image, so what they name is taken before the lines move.
	t := m.table
	var err error
	for _, e := range edits {
		if t, err = t.edit(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
	}
	text := t.String()
	to, err := newImage(m.layout, m.name, text != "" || m.exists && m.system && !m.own, text)
	if err == nil {
		to.shut = m.shut // a file keeps its mode
	}
	return to, err
}

// a setting is what a variable is at some line, and which line set it.
type setting struct {
	value string
	n     int
}

// shells are those that read what quote writes, by their names.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}

// unreadLine returns the first of these lines that cron does not read, and what that does.
func (m *image) unreadLine(parts ...part) string {
	for _, p := range parts {
		for i, raw := range splitLines(p.text()) {
			why := m.unread(raw)
			switch {
			case why == "":
			case strings.HasPrefix(why, unsure):
				return fmt.Sprintf("line %d: %s", p.n+i, why)
			case m.LineByLine:
				return fmt.Sprintf("cron leaves out line %d: %s", p.n+i, why)
			case p.block != nil:
				return fmt.Sprintf("cron reads no line of this table because of the entry of %s: %s", p.id, why)
			default:
				return fmt.Sprintf("cron reads no line of this table because of line %d: %s: correct that line, or delete it", p.n+i, why)
			}
		}
	}
	return ""
}

// Problems looks at what cron does not read, and at what the variables above each block do to it.
func (m *image) Problems() (all []deploy.Problem) {
	foreign := 0
	for _, p := range m.table {
		if p.block == nil && foreign == 0 && readLine(bare(p.raw), m.system).kind == entry {
			foreign = p.n
		}
	}
	shut := m.shut
	if shut == "" && !m.LineByLine {
		shut = m.unreadLine(m.table...)
	}
	m.walk(func(p part, env map[string]setting) {
		if p.block == nil {
			return
		}
		text := shut
		if text == "" && m.LineByLine {
			text = m.unreadLine(p)
		}
		if text != "" {
			all = append(all, deploy.Problem{ID: p.id, Text: text})
		}
		for _, text := range m.problemsOf(p, env, foreign) {
			all = append(all, deploy.Problem{ID: p.id, Text: text})
		}
	})
	return all
}

func (m *image) problemsOf(p part, env map[string]setting, foreign int) (all []string) {
	own := map[string]string{}
	for _, raw := range splitLines(p.body) {
		if l := readLine(bare(raw), m.system); l.kind == variable {
			own[l.name] = l.value
		}
	}
	if s := env["SHELL"]; s.value != "" && !slices.Contains(shells, path.Base(s.value)) {
		all = append(all, fmt.Sprintf("line %d sets SHELL=%s, which is no POSIX shell: move that line below the block", s.n, s.value))
	}
	if s := env["CRON_TZ"]; s.value != own["CRON_TZ"] && m.readsZone(s) {
		all = append(all, fmt.Sprintf("line %d sets CRON_TZ=%s, which applies to this entry too: move that line below the block, or install this entry in another file", s.n, s.value))
	}
	if s, set := env["MAILTO"]; m.own && set {
		if _, mine := own["MAILTO"]; !mine {
			all = append(all, fmt.Sprintf("line %d sets MAILTO=%s, which applies to this entry too: give all entries of the file an address", s.n, s.value))
		}
	}
	if m.own && foreign != 0 {
		all = append(all, fmt.Sprintf("line %d does not belong to dibs, and variables of a block apply to all lines below: move it to another file, or adopt it", foreign))
	}
	return all
}

// readsZone reports whether a CRON_TZ counts. A cron that does not read it passes it to the command only.
func (m *image) readsZone(s setting) bool { return m.Zones || s.n != 0 && m.own }

// walk calls f for each part with the variables that are set at its end for a block, and above it for a line.
func (m *image) walk(f func(part, map[string]setting)) {
	env := map[string]setting{}
	for _, p := range m.table {
		for i, raw := range splitLines(p.text()) {
			if l := readLine(bare(raw), m.system); l.kind == variable {
				env[l.name] = setting{l.value, p.n + i}
			}
		}
		f(p, env)
	}
}

// meaning is what an entry does, as far as it is written in the table.
type meaning struct {
	when, user string
	args       []string
	env        map[string]string
}

// mean reads an entry's line below variables. An error says why it is not known what it does.
func (m *image) mean(l line, env map[string]setting) (meaning, error) {
	out := meaning{when: strings.ToLower(l.when), user: l.user, env: map[string]string{"SHELL": "/bin/sh"}}
	for name, s := range env {
		out.env[name] = s.value
	}
	command, input, sure := percent(l.command)
	switch {
	case input:
		return out, fmt.Errorf("it has standard input after a %% sign")
	case !sure:
		return out, fmt.Errorf("crons differ over its two backslashes")
	}
	if !slices.Contains(shells, path.Base(out.env["SHELL"])) {
		return out, fmt.Errorf("its SHELL is %s", out.env["SHELL"])
	}
	args, err := words(command)
	if err != nil {
		return out, err
	}
	for i := 0; i < len(args); i++ {
		name, value, assigned := strings.Cut(args[i], "=")
		switch {
		case i == 0 && (args[i] == "env" || args[i] == "/usr/bin/env" || args[i] == "/bin/env"):
		case assigned && varName().MatchString(name):
			out.env[name] = value
		default:
			out.args = args[i:]
			return out, nil
		}
	}
	return out, errShell
}

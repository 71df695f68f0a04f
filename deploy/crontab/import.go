package crontab

import (
	"bytes"
	"fmt"
	"maps"
	"os/user"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/schedule"
)

// ImportOptions say what a crontab does not.
type ImportOptions struct {
	// App is the name of the manifest's app.
	App string
	// Zone is the host's zone, in which its cron reads times: an IANA name. It is required, because a manifest's
	// default is UTC and a crontab's is not.
	Zone string
	// System states that entries have a user, as in /etc/crontab and /etc/cron.d.
	System bool
	// Home returns a user's home directory, where cron starts commands; "" is the user who runs this process.
	// Default: the system's users.
	Home func(user string) (string, error)
}

// Left is what was not carried over unchanged.
type Left struct {
	// Line is its number, from 1, and Text the line.
	Line int
	Text string
	// Reason says what is missing, and what to do.
	Reason string
}

// Import returns the manifest that does what a crontab does, as YAML, and lists what it could not carry over.
// Comments above an entry become comments of its job. It leaves out entries of dibs itself. The scope of all jobs is
// host, like a crontab's: each server runs them; their concurrency is dibs's default, Forbid. It fails if no entry
// remains.
func Import(data []byte, o ImportOptions) (text []byte, left []Left, err error) {
	if _, err := schedule.LoadZone(o.Zone); err != nil || o.Zone == "" {
		return nil, nil, fmt.Errorf("zone %q: want the host's zone, as in Europe/Berlin: %w", o.Zone, err)
	}
	if o.Home == nil {
		o.Home = homeOf
	}
	t, err := parse(string(data))
	if err != nil {
		return nil, nil, err
	}
	im := &importer{ImportOptions: o, names: map[string]bool{}, homes: map[string]string{}}
	(&image{layout: layout{system: o.System}, table: t}).walk(im.part)
	if len(im.jobs) == 0 {
		return nil, im.left, fmt.Errorf("no entry could be converted: %d are left", len(im.left))
	}
	text, err = im.yaml()
	return text, im.left, err
}

func homeOf(name string) (string, error) {
	if name == "" {
		me, err := user.Current()
		if err != nil {
			return "", err
		}
		return me.HomeDir, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

type importer struct {
	ImportOptions
	comment []string // above the next entry
	jobs    []importedJob
	names   map[string]bool
	homes   map[string]string
	left    []Left
}

// An importedJob is written in the order of its fields.
type importedJob struct {
	Name     string            `yaml:"name"`
	Schedule string            `yaml:"schedule"`
	Zone     string            `yaml:"timezone,omitempty"`
	Command  any               `yaml:"command"`
	Dir      string            `yaml:"dir,omitempty"`
	User     string            `yaml:"user,omitempty"`
	Env      map[string]string `yaml:"env,omitempty"`

	comment string
}

func (im *importer) leave(p part, format string, a ...any) {
	im.left = append(im.left, Left{p.n, strings.TrimRight(p.text(), "\r\n"), fmt.Sprintf(format, a...)})
}

// part takes one part of the table, with the variables that count for it.
func (im *importer) part(p part, env map[string]setting) {
	if p.block != nil {
		im.comment = nil
		im.leave(p, "dibs already runs it for %s", p.id)
		return
	}
	switch l := readLine(bare(p.raw), im.System); l.kind {
	case blank:
		text := strings.TrimSpace(p.raw)
		if text == "" {
			im.comment = nil
		} else {
			im.comment = append(im.comment, strings.ToValidUTF8(text, "�"))
		}
	case variable:
		im.comment = nil
		if l.name == "MAILTO" && l.value != "" {
			im.leave(p, "dibs keeps output in its history and mails nothing: jobs get MAILTO in their environment, as under cron; for a message add a hook")
		}
	case broken:
		im.comment = nil
		im.leave(p, "cron does not read it either: it is no entry and no variable")
	case entry:
		if reason := im.entry(l, env); reason != "" {
			im.leave(p, "%s", reason)
		}
		im.comment = nil
	}
}

// entry adds a job, or says why not.
func (im *importer) entry(l line, env map[string]setting) (reason string) {
	j := importedJob{Schedule: l.when, User: strings.SplitN(l.user, ":", 2)[0], Env: map[string]string{}, comment: strings.Join(im.comment, "\n")}
	command, _, input := percent(l.command)
	switch {
	case strings.EqualFold(l.when, "@reboot"):
		return "dibs runs nothing at the start of the machine: use a systemd unit, or dibs run in a separate script"
	case input:
		return "a % sign gives the command standard input, which a job's command does not have: put it into a script, as in printf '%s\\n' … | COMMAND"
	case strings.HasSuffix(command, "\r"):
		return "the line ends in a carriage return, which cron passes to the command: save the crontab with plain line ends"
	case !utf8.ValidString(l.command) || strings.ContainsFunc(l.command, func(c rune) bool { return c != '\t' && unicode.IsControl(c) }):
		return "it has bytes that no manifest can hold (control characters, or no UTF-8): put it into a script"
	case j.User != l.user:
		return "a group or a login class follows its user: set user and group in the job"
	case len(im.jobs) == 256:
		return "a manifest has at most 256 jobs: import it into another app"
	}
	if _, err := (schedule.Options{Name: im.App + "/job"}).Parse(l.when); err != nil {
		return fmt.Sprintf("dibs cannot read the schedule: %v", err)
	}
	if reason := im.environment(&j, env); reason != "" {
		return reason
	}
	j.Command = map[string]string{"shell": command}
	if shell := env["SHELL"].value; shell != "" && shell != "/bin/sh" {
		j.Command = []string{shell, "-c", command}
	}
	if reason := im.directory(&j); reason != "" {
		return reason
	}
	j.Name = im.name(command)
	im.jobs = append(im.jobs, j)
	return ""
}

// environment carries the variables over. The zone becomes the job's.
func (im *importer) environment(j *importedJob, env map[string]setting) (reason string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		s := env[name]
		switch {
		case name == "CRON_TZ":
			if _, err := schedule.LoadZone(s.value); err != nil || s.value == "" {
				return fmt.Sprintf("line %d: CRON_TZ=%q is not a zone that dibs knows", s.n, s.value)
			}
			j.Zone = s.value
		case !utf8.ValidString(s.value) || !utf8.ValidString(name) || strings.ContainsAny(s.value+name, "\x00"):
			return fmt.Sprintf("line %d sets a variable with bytes that no manifest can hold", s.n)
		default:
			j.Env[name] = s.value
		}
	}
	if _, stated := j.Env["PATH"]; !stated {
		j.Env["PATH"] = "/usr/bin:/bin" // cron's, and not that of dibs
	}
	return ""
}

// directory is where cron starts the command: HOME as the table sets it, or the user's.
func (im *importer) directory(j *importedJob) (reason string) {
	if home, set := j.Env["HOME"]; set {
		j.Dir = home
		return ""
	}
	home, known := im.homes[j.User]
	if !known {
		var err error
		if home, err = im.Home(j.User); err != nil {
			return fmt.Sprintf("cron starts it in the home directory of %q, which is not known here: %v", j.User, err)
		}
		im.homes[j.User] = home
	}
	j.Dir = home
	return ""
}

// name makes a job's name of its command: its words without folders, options and signs.
func (im *importer) name(command string) string {
	var b strings.Builder
	for _, word := range strings.Fields(command) {
		if strings.ContainsAny(word[:1], "-<>|&;(") || strings.Contains(word, "=") {
			if b.Len() > 0 {
				break
			}
			continue
		}
		word = strings.TrimSuffix(path.Base(strings.Trim(word, `"'`)), path.Ext(word))
		for _, c := range strings.ToLower(word) {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && b.Len() > 0:
				b.WriteRune(c)
			case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
				b.WriteByte('-')
			}
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
		if b.Len() > 24 {
			break
		}
	}
	name := strings.Trim(b.String()[:min(b.Len(), 48)], "-")
	if name == "" {
		name = "job"
	}
	for n, base := 2, name; im.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	im.names[name] = true
	return name
}

// yaml writes the manifest, and reads it again, so that what is returned is a valid one.
func (im *importer) yaml() ([]byte, error) {
	jobs := &yaml.Node{Kind: yaml.SequenceNode}
	for _, j := range im.jobs {
		n := &yaml.Node{}
		if err := n.Encode(j); err != nil {
			return nil, err
		}
		n.HeadComment = j.comment
		jobs.Content = append(jobs.Content, n)
	}
	var doc yaml.Node
	err := doc.Encode(struct {
		Version  int    `yaml:"version"`
		App      string `yaml:"app"`
		Defaults any    `yaml:"defaults"`
	}{manifest.Version, im.App, map[string]any{
		"timezone": im.Zone,
		"policy":   map[string]string{"concurrency_scope": "host"},
	}})
	if err != nil {
		return nil, err
	}
	// Encoding the list as part of the structure would drop its comments.
	doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "jobs"}, jobs)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	if _, err := manifest.Load(b.Bytes(), "imported.yaml"); err != nil {
		return nil, fmt.Errorf("what was imported: %w", err)
	}
	return b.Bytes(), nil
}

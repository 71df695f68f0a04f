package crontab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
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
	// Login is the user whose table it is, if not a system's. Default: the user who runs this process.
	Login string
	// SetUser gives the jobs Login as their user: somebody else runs dibs.
	SetUser bool
	// Home returns a user's home directory, where cron starts commands. The error wraps fs.ErrNotExist if that is not
	// there. Default: the system's users.
	Home func(user string) (string, error)
}

// Left is what was not carried over unchanged.
type Left struct {
	// Line is its number, from 1, and Text the line.
	Line int
	Text string
	// Reason says what is missing, and what to do.
	Reason string
	// Kept states that the line became a job, which differs as Reason says.
	Kept bool
	// Userless states that it may be an entry without a user, in a table that was read as a system's: it has none, or
	// one that is not known here.
	Userless bool
}

// Import returns the manifest that does what a crontab does, as YAML, and lists what it could not carry over, or not
// exactly. Comments above an entry become comments of its job. It leaves out entries of dibs itself. The scope of all
// jobs is host, like a crontab's: each server runs them; their concurrency is dibs's default, Forbid, and what they
// leave running stays, as under cron. It fails if no entry remains.
func Import(data []byte, o ImportOptions) (text []byte, left []Left, err error) {
	if _, err := schedule.LoadZone(o.Zone); err != nil || o.Zone == "" {
		return nil, nil, fmt.Errorf("zone %q: want the host's zone, as in Europe/Berlin: %w", o.Zone, err)
	}
	t, err := parse(string(data))
	if err != nil {
		return nil, nil, err
	}
	im, err := newImporter(o)
	if err != nil {
		return nil, nil, err
	}
	if _, err := im.yaml([]importedJob{{Name: "job", Schedule: "@daily", Command: []string{"true"}}}); err != nil {
		return nil, nil, err
	}
	(&image{layout: layout{system: o.System}, table: t}).walk(im.part)
	switch {
	case len(im.jobs) == 0 && len(im.left) == 0:
		return nil, nil, errors.New("it has no entries")
	case len(im.jobs) == 0:
		return nil, im.left, fmt.Errorf("no entry could be converted: %d are left", len(im.left))
	}
	text, err = im.yaml(im.jobs)
	return text, im.left, err
}

// LooksSystem returns a user if each entry of a crontab, read as a user's table, would call a program of a user's
// name: then it probably is a system's table.
func LooksSystem(data []byte) (user string, yes bool) {
	for _, raw := range splitLines(string(data)) {
		l := readLine(bare(raw), true)
		if readLine(bare(raw), false).kind != entry {
			continue
		}
		if l.kind != entry {
			return "", false
		}
		if known, _ := (layout{}).knows(l.user); !known && l.user != "root" {
			return "", false
		}
		user = l.user
	}
	return user, user != ""
}

func newImporter(o ImportOptions) (*importer, error) {
	if o.Home == nil {
		o.Home = homeOf
		if o.Login == "" && !o.System {
			me, err := user.Current()
			if err != nil {
				return nil, err
			}
			o.Login = me.Username
		}
	}
	return &importer{ImportOptions: o, names: map[string]bool{}}, nil
}

func homeOf(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	_, err = os.Stat(u.HomeDir)
	return u.HomeDir, err
}

type importer struct {
	ImportOptions
	comment []string // above the next entry
	jobs    []importedJob
	names   map[string]bool
	left    []Left
	// notes are what the last entry's job does differently.
	notes []string
	// stranger states that the last entry's user is not known here.
	stranger bool
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
	Policy   map[string]int    `yaml:"policy,omitempty"`

	comment string
}

func (im *importer) note(format string, a ...any) {
	im.notes = append(im.notes, fmt.Sprintf(format, a...))
}

func (im *importer) leave(p part, format string, a ...any) {
	im.left = append(im.left, Left{Line: p.n, Text: strings.TrimRight(p.text(), "\r\n"), Reason: fmt.Sprintf(format, a...)})
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
			im.comment = append(im.comment, printable(text))
		}
	case variable:
		im.comment = nil
		if l.name == "MAILTO" && l.value != "" {
			im.leave(p, "dibs keeps output in its history and mails nothing: jobs get MAILTO in their environment, as under cron; for a message add a hook")
		}
	case broken:
		im.comment = nil
		im.leave(p, "cron does not read it either: it is no entry and no variable (Debian's then ignores the whole table)")
		im.left[len(im.left)-1].Userless = im.System && readLine(bare(p.raw), false).kind == entry
	case entry:
		if reason := im.entry(l, env); reason != "" {
			im.leave(p, "%s", reason)
			im.left[len(im.left)-1].Userless = im.System && im.stranger
		} else {
			for _, text := range im.notes {
				im.leave(p, "%s", text)
				im.left[len(im.left)-1].Kept = true
			}
		}
		im.comment = nil
	}
}

// printable is a comment without what YAML cannot hold in one.
func printable(comment string) string {
	return strings.Map(func(c rune) rune {
		if c != '\t' && (!unicode.IsPrint(c) || c == '\uFEFF') {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(comment, "\uFFFD"))
}

// entry adds a job, or says why not. Its notes say what the job does differently.
func (im *importer) entry(l line, env map[string]setting) (reason string) {
	im.notes, im.stranger = nil, false
	j := importedJob{User: strings.SplitN(l.user, ":", 2)[0], Env: map[string]string{}, comment: strings.Join(im.comment, "\n")}
	command, input, sure := percent(im.flags(l.command))
	switch {
	case strings.EqualFold(l.when, "@reboot"):
		return "dibs runs nothing at the start of the machine: use a systemd unit, or dibs run in a separate script"
	case input:
		return "cron ends the command at its first bare % sign, and the rest is standard input, which a job's command does not have: " +
			`if a percent sign was meant, write \%; if standard input was meant, use a script`
	case !sure:
		return "crons differ over its two backslashes: Debian's takes one of them away, cronie and busybox none; put it into a script"
	case command == "":
		return "it has no command"
	case strings.HasSuffix(command, "\r"):
		return "the line ends in a carriage return, which cron passes to the command: save the crontab with plain line ends"
	case !utf8.ValidString(l.command) || strings.ContainsFunc(l.command, func(c rune) bool { return c != '\t' && unicode.IsControl(c) }):
		return "it has bytes that no manifest can hold (control characters, or no UTF-8): put it into a script"
	case j.User != l.user:
		return "a group or a login class follows its user: set user and group in the job"
	case len(im.jobs) == 256:
		return "a manifest has at most 256 jobs: import it into another app"
	}
	if im.SetUser && !im.System {
		j.User = im.Login
	}
	if j.Schedule, reason = im.schedule(l.when); reason != "" {
		return reason
	}
	if reason := im.environment(&j, env); reason != "" {
		return reason
	}
	j.Command = map[string]string{"shell": command}
	if shell := j.Env["SHELL"]; shell != "/bin/sh" {
		j.Command = []string{shell, "-c", command}
	}
	if reason := im.directory(&j); reason != "" {
		return reason
	}
	j.Name = im.name(command)
	if _, err := im.yaml([]importedJob{j}); err != nil {
		return fmt.Sprintf("no manifest can hold it: %v", err)
	}
	im.jobs = append(im.jobs, j)
	return ""
}

// flags takes the flags of cronie and the BSDs off a command.
func (im *importer) flags(command string) string {
	for {
		fields, rest := cutFields(command, 1)
		if len(fields) == 0 || !slices.Contains([]string{"-n", "-q", "-s"}, fields[0]) {
			return command
		}
		im.note("its flag %s concerns cron's mail, log and overlaps, and is left out (Debian's cron takes it for the program)", fields[0])
		command = rest
	}
}

// schedule returns when dibs is to run what cron fires at these times, if all crons agree on them.
func (im *importer) schedule(when string) (expr, reason string) {
	fields := strings.Fields(when)
	if rest, quiet := strings.CutPrefix(fields[0], "-"); quiet && len(fields) == 5 {
		im.note("the - in front keeps cronie from logging it, and is left out")
		fields[0] = rest
	}
	for i, text := range fields {
		if len(fields) == 1 {
			if !slices.Contains(nicknames, text) {
				return "", "cron does not read " + text
			}
			break
		}
		f := fieldsOfCron[i]
		if strings.HasPrefix(text, "~") {
			text = fmt.Sprint(f.lo, text) // cronie's
		}
		switch t := f.read(text); {
		case !t.ok:
			return "", fmt.Sprintf("cron does not read its %s, %s (Debian's then ignores the whole table)", f.name, text)
		case t.junk != "":
			return "", fmt.Sprintf("crons differ over its %s, %s: some ignore %q, others the line", f.name, text, t.junk)
		case t.empty:
			return "", fmt.Sprintf("crons differ over its %s, %s: a range that ends before it begins has no value for Debian's and cronie; write a list", f.name, text)
		case t.random && strings.ContainsAny(text, ",/"):
			return "", fmt.Sprintf("cron chooses a random value for its %s, %s: write one value, or H", f.name, text)
		case t.random:
			from, to, _ := strings.Cut(text, "~")
			if to == "" {
				to = fmt.Sprint(f.hi)
			}
			fields[i] = "H(" + from + "-" + to + ")"
			im.note("cron chooses a random value for its %s, %s, whenever it reads the table; the job has %s, one value that stays", f.name, text, fields[i])
		}
	}
	expr = strings.Join(fields, " ")
	if _, err := (schedule.Options{Name: im.App + "/job"}).Parse(expr); err != nil {
		return "", fmt.Sprintf("dibs cannot read the schedule: %v", err)
	}
	return expr, ""
}

// environment carries the variables over, with those that cron itself sets. The zone becomes the job's, and cronie's
// delay its jitter.
func (im *importer) environment(j *importedJob, env map[string]setting) (reason string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		s := env[name]
		switch {
		case name == "LOGNAME": // cron's own counts
		case name == "CRON_TZ":
			if _, err := schedule.LoadZone(s.value); err != nil || s.value == "" {
				return fmt.Sprintf("line %d: CRON_TZ=%q is not a zone that dibs knows", s.n, s.value)
			}
			j.Zone = s.value
			im.note("line %d sets CRON_TZ, which cronie reads and other crons (Debian's, busybox's) do not: the job's timezone is %s; "+
				"without that line in the crontab it would be %s", s.n, s.value, im.Zone)
		case name == "RANDOM_DELAY":
			minutes, err := strconv.Atoi(s.value)
			if err != nil || minutes < 0 || minutes > 24*60 {
				return fmt.Sprintf("line %d: RANDOM_DELAY=%q is no number of minutes up to 1440", s.n, s.value)
			}
			j.Policy = map[string]int{"jitter_seconds": minutes * 60}
			im.note("line %d sets RANDOM_DELAY, by which cronie delays it at random, and other crons do not: the job has jitter_seconds: %d, "+
				"a delay that stays the same", s.n, minutes*60)
		case !utf8.ValidString(s.value) || !utf8.ValidString(name) || strings.ContainsAny(s.value+name, "\x00"):
			return fmt.Sprintf("line %d sets a variable with bytes that no manifest can hold", s.n)
		default:
			j.Env[name] = s.value
		}
	}
	if _, stated := j.Env["PATH"]; !stated {
		j.Env["PATH"] = "/usr/bin:/bin" // cron's, and not that of dibs
	}
	if _, stated := j.Env["SHELL"]; !stated {
		j.Env["SHELL"] = "/bin/sh"
	}
	if shell := j.Env["SHELL"]; !path.IsAbs(shell) {
		return fmt.Sprintf("its SHELL, %q, is no absolute path", shell)
	}
	if j.User == "" && im.Login != "" { // a job without a user does not get it
		j.Env["LOGNAME"] = im.Login
	}
	return ""
}

// directory is where cron starts the command: HOME as the table sets it, or the user's.
func (im *importer) directory(j *importedJob) (reason string) {
	home, set := j.Env["HOME"]
	var err error
	if set {
		_, err = os.Stat(home)
	} else {
		name := cmp.Or(j.User, im.Login)
		if home, err = im.Home(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			im.stranger = true
			return fmt.Sprintf("cron starts it in the home directory of %q, which is not known here: %v", name, err)
		}
	}
	if !set && j.User == "" && im.Login != "" { // a job without a user does not get it
		j.Env["HOME"] = home
	}
	if j.Dir = home; err != nil || !path.IsAbs(home) {
		j.Dir = "/"
		im.note("its home directory %q is not there: Debian's cron then starts it in /var/spool/cron, and cronie does not start it; the job starts in /", home)
	}
	return ""
}

// wrappers are programs that call the command behind them, with the options of theirs that have a value, and how many
// words stand before the command.
var wrappers = map[string]struct {
	valued string
	words  int
}{
	"flock": {"-w -E --timeout --wait --conflict-exit-code", 1}, "timeout": {"-k -s --kill-after --signal", 1},
	"nice": {"-n", 0}, "ionice": {"-c -n", 0}, "env": {"-u", 0}, "sudo": {"-u -g", 0}, "chronic": {}, "nohup": {}, "setsid": {},
}

// unwrap returns the words of a command behind those that only say how it is called.
func unwrap(all []string) []string {
	for len(all) > 0 {
		w, known := wrappers[path.Base(all[0])]
		if !known && !strings.Contains(all[0], "=") {
			break
		}
		rest := all[1:]
		for known && len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
			if slices.Contains(strings.Fields(w.valued), rest[0]) {
				rest = rest[1:]
			}
			rest = rest[min(1, len(rest)):]
		}
		rest = rest[min(w.words, len(rest)):]
		if path.Base(all[0]) == "flock" && len(rest) > 0 && rest[0] == "-c" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			break
		}
		all = rest
	}
	return all
}

// name makes a job's name of its command: its words without folders, options and signs.
func (im *importer) name(command string) string {
	var b strings.Builder
	for _, word := range unwrap(strings.Fields(command)) {
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
func (im *importer) yaml(all []importedJob) ([]byte, error) {
	jobs := &yaml.Node{Kind: yaml.SequenceNode}
	for _, j := range all {
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
		"policy":   map[string]string{"concurrency_scope": "host", "leftovers": "leave"},
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
	if _, err := manifest.Load(b.Bytes(), "the manifest"); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

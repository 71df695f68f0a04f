package crontab

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/lazy"
)

// DefaultPath is the PATH that entries find, if Options say no other.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// longest is the most bytes of a command or a variable: cron's limit is 1000 with the final NUL.
const longest = 998

// Options are what a target's entries have in common.
type Options struct {
	// Path is the PATH that entries find; default: DefaultPath. An entry's own PATH wins.
	Path string
	// Zones says that the installed cron reads CRON_TZ: cronie does, Debian's does not. Without it an entry with
	// a Zone is refused.
	Zones bool
	// LineByLine says that the installed cron leaves out a line that it cannot read. Without it, such a line of
	// anybody is a problem of all entries, because Debian's cron then ignores the whole table.
	LineByLine bool
}

func (o Options) path() string {
	if o.Path == "" {
		return DefaultPath
	}
	return o.Path
}

// A layout is what kind of table it is.
type layout struct {
	Options
	system bool   // entries have a user
	own    bool   // nobody else's entries are in it
	user   string // whose table it is, if not a system's; "" is this user's
	// users reports whether a user exists; nil asks the system.
	users func(string) (bool, error)
}

var (
	field    = lazy.Regexp(`^[0-9A-Za-z*/,-]+$`)
	special  = lazy.Regexp(`^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$`)
	userName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	varName  = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	zoneName = lazy.Regexp(`^[A-Za-z0-9_+/-]{1,64}$`)
	address  = lazy.Regexp(`^[^\x00-\x20"'\x7f]{0,250}$`)
)

// render is an entry's text: the variables that the table is to have, and a line for each of its times.
func (l layout) render(e deploy.Entry) (string, error) {
	user, err := l.userOf(e)
	if err != nil {
		return "", err
	}
	command, err := l.command(e)
	if err != nil {
		return "", err
	}
	settings, err := l.settings(e)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(settings)
	for _, when := range e.When {
		fields := strings.Fields(when)
		if err := checkWhen(fields); err != nil {
			return "", fmt.Errorf("%q: %w", when, err)
		}
		b.WriteString(strings.Join(fields, " ") + " ")
		if l.system {
			b.WriteString(user + " ")
		}
		b.WriteString(command + "\n")
	}
	return b.String(), nil
}

func checkWhen(fields []string) error {
	switch {
	case len(fields) == 1 && special().MatchString(fields[0]):
		return nil
	case len(fields) != 5 || slices.ContainsFunc(fields, func(f string) bool { return !field().MatchString(f) }):
		return fmt.Errorf("want five fields of digits, names and * / , -, or @daily and the like, as cron reads them")
	}
	return nil
}

func (l layout) userOf(e deploy.Entry) (string, error) {
	user := e.User
	switch {
	case l.system && user == "":
		user = "root"
	case !l.system && user != "" && user != l.user:
		return "", fmt.Errorf("it runs as %q, and this is the crontab of one user: install it in a file of /etc/cron.d, or in that user's table", user)
	}
	if user != "" && !userName().MatchString(user) {
		return "", fmt.Errorf("user %q: want a name, as in /etc/passwd", user)
	}
	return user, nil
}

// command is the line for sh. In a table of others it states PATH, which in an own one the table states.
func (l layout) command(e deploy.Entry) (string, error) {
	if len(e.Command) == 0 || !path.IsAbs(e.Command[0]) {
		return "", fmt.Errorf("the command's program has no absolute path: cron does not have your PATH")
	}
	env := maps.Clone(e.Env)
	if env == nil {
		env = map[string]string{}
	}
	if _, stated := env["PATH"]; !stated && !l.own {
		env["PATH"] = l.path()
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !varName().MatchString(name) {
			return "", fmt.Errorf("variable %q: want a name of letters, digits and _", name)
		}
		if err := checkWord(env[name]); err != nil {
			return "", fmt.Errorf("variable %s: %w", name, err)
		}
		out = append(out, name+"="+quoteValue(env[name]))
	}
	if len(out) > 0 {
		out = append([]string{"/usr/bin/env"}, out...)
	}
	for i, word := range e.Command {
		if err := checkWord(word); err != nil {
			return "", fmt.Errorf("word %d of the command: %w", i+1, err)
		}
		out = append(out, quote(word))
	}
	line := strings.Join(out, " ")
	if len(line) > longest {
		return "", fmt.Errorf("its command has %d bytes with its variables, and cron takes %d: put it into a script, or shorten it", len(line), longest)
	}
	return line, nil
}

func quoteValue(value string) string {
	if value == "" {
		return ""
	}
	return quote(value)
}

// settings are the variables that a block sets for its table.
func (l layout) settings(e deploy.Entry) (string, error) {
	switch {
	case e.Zone != "" && !l.Zones:
		return "", fmt.Errorf("zone %q: this cron does not read CRON_TZ (cronie does); give it a schedule in the host's own zone", e.Zone)
	case e.Zone != "" && !zoneName().MatchString(e.Zone):
		return "", fmt.Errorf("zone %q is not the name of a zone", e.Zone)
	case !l.own && (e.Zone != "" || e.MailTo != nil):
		return "", fmt.Errorf("a zone and a mail address apply to all lines below them, so they cannot be set in a shared table: install it in its own file, %s", DefaultFile(e.App))
	case e.MailTo != nil && !address().MatchString(*e.MailTo):
		return "", fmt.Errorf("mail address %q: want one or several, separated by commas, without blanks", *e.MailTo)
	case !l.own:
		return "", nil
	}
	if err := checkSetting(l.path()); err != nil {
		return "", fmt.Errorf("PATH: %w", err)
	}
	s := "SHELL=/bin/sh\nPATH=" + l.path() + "\n"
	if e.MailTo != nil {
		s += "MAILTO=\"" + *e.MailTo + "\"\n"
	}
	if e.Zone != "" {
		s += "CRON_TZ=" + e.Zone + "\n"
	}
	return s, nil
}

func checkSetting(value string) error {
	if strings.Trim(value, blanks) != value || strings.ContainsAny(value, "\"'") || len(value) > longest-len("PATH=") {
		return fmt.Errorf("want at most %d bytes, without quotes, and without blanks at its ends", longest-len("PATH="))
	}
	return checkWord(value)
}

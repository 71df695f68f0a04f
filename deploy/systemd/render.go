package systemd

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/lazy"
)

// between stands in an entry's text between the timer and the service.
const between = "# the service:\n"

// disabled stands at the end of an entry's text if its timer is not enabled.
const disabled = "# not enabled\n"

// defaultGrace is for commands that say nothing of it.
const defaultGrace = 10 * time.Second

var (
	userName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	varName  = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	property = lazy.Regexp(`^[A-Za-z]{1,100}=[A-Za-z0-9_.,@+/ -]+$`)
	calendar = lazy.Regexp(`^[A-Za-z0-9*.,:/ _+~-]{1,1000}$`)
)

// unit is the name of an entry's units without their ending. The parts have no dots.
func unit(id deploy.ID) string { return fmt.Sprintf("dibs-%s.%s.%d", id.App, id.Job, id.Index) }

func (u *Units) render(e deploy.Entry) (string, error) {
	service, err := u.service(e)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[Unit]\nDescription=When dibs starts %s\n\n[Timer]\n", e.ID)
	for _, when := range e.When {
		if !calendar().MatchString(when) {
			return "", fmt.Errorf("%q: want a calendar event of systemd, in one line", when)
		}
		b.WriteString("OnCalendar=" + when + "\n")
	}
	b.WriteString("AccuracySec=1s\n")
	if e.Persistent {
		b.WriteString("Persistent=true\n")
	}
	b.WriteString("\n[Install]\nWantedBy=timers.target\n")
	return b.String() + between + service, nil
}

func (u *Units) service(e deploy.Entry) (string, error) {
	switch {
	case len(e.Command) == 0 || !path.IsAbs(e.Command[0]):
		return "", errors.New("the command's program has no absolute path")
	case e.User != "" && (u.user || !userName().MatchString(e.User)):
		return "", fmt.Errorf("user %q: want a name, as in /etc/passwd, and a unit of the system", e.User)
	case len(e.Sandbox) > 0 && u.user:
		return "", errors.New("it has a sandbox, which a user's systemd may leave out in silence: install it in the system's")
	case e.Zone != "" || e.MailTo != nil:
		return "", errors.New("a timer has its zone in each of its times, and mails nothing")
	}
	grace := e.StopGrace
	if grace == 0 {
		grace = defaultGrace
	}
	// dibs stops the job itself, and then has to report it.
	stop := fmt.Sprintf("%ds", int((grace+20*time.Second+time.Second-1)/time.Second))
	env, command, err := words(e)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[Unit]\nDescription=dibs: %s\nWants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=oneshot\n", e.ID)
	if e.User != "" {
		b.WriteString("User=" + e.User + "\n")
	}
	for _, p := range e.Sandbox {
		if !property().MatchString(p) {
			return "", fmt.Errorf("%q: want a property of a unit, NAME=VALUE", p)
		}
	}
	if e.Overlap {
		command = slices.Concat(u.apart(e, stop), env, command)
	} else {
		for _, v := range env {
			b.WriteString("Environment=" + strings.TrimPrefix(v, "--setenv=") + "\n")
		}
		// 4 is a tick that is not run here, 75 the same with --exit-tempfail.
		for _, p := range e.Sandbox {
			b.WriteString(p + "\n")
		}
		b.WriteString("SuccessExitStatus=4 75\nKillMode=mixed\nTimeoutStartSec=infinity\nTimeoutStopSec=" + stop + "\n")
	}
	b.WriteString("ExecStart=" + strings.Join(command, " ") + "\n")
	return b.String(), nil
}

// apart is what runs each fire in a unit of its own.
func (u *Units) apart(e deploy.Entry, stop string) []string {
	all := []string{"/usr/bin/systemd-run"}
	if u.user {
		all = append(all, "--user")
	}
	all = append(all, "--quiet", "--collect", "--no-block", "--property=SuccessExitStatus=4", "--property=KillMode=mixed",
		"--property=TimeoutStopSec="+stop)
	for _, p := range e.Sandbox {
		all = append(all, quote("--property="+p, true))
	}
	if e.User != "" {
		all = append(all, "--uid="+e.User)
	}
	return all
}

// words are the command and its variables, quoted. A variable has --setenv= in front, outside of its quotes.
func words(e deploy.Entry) (env, command []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if !varName().MatchString(name) {
			return nil, nil, fmt.Errorf("variable %q: want a name of letters, digits and _", name)
		}
		if err := checkWord(e.Env[name]); err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", name, err)
		}
		env = append(env, "--setenv="+quote(name+"="+e.Env[name], e.Overlap))
	}
	for i, word := range e.Command {
		if err := checkWord(word); err != nil {
			return nil, nil, fmt.Errorf("word %d of the command: %w", i+1, err)
		}
		command = append(command, quote(word, true))
	}
	return env, command, nil
}

// checkWord refuses what a line of a unit cannot hold. It does not quote a value, which may be private.
func checkWord(word string) error {
	for _, c := range []byte(word) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("it has the control character %#02x, which a unit's line cannot hold: leave it out, or put it into a script", c)
		}
	}
	return nil
}

// plain are the characters that need no quotes in a unit.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@+=:,./-"

// quote writes a word for a unit: systemd expands % everywhere, and $ in commands.
func quote(word string, command bool) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\t", `\t`)
	word = r.Replace(word)
	if command {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	return `"` + word + `"`
}

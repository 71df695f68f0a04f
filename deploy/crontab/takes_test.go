package crontab

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
)

// readings are commands as crons hand them to the shell, measured with a SHELL that writes down its second argument:
// Debian's cron 3.0pl1-162, cronie 1.7.2, and busybox 1.35, all characters and those behind a backslash. Only these
// differ from what is written, in one of them.
var readings = []struct{ written, debian, cronie, busybox string }{
	{`x%y`, `x`, `x`, `x%y`},
	{`x\%y`, `x%y`, `x%y`, `x\%y`},
	{`x\\y`, `x\y`, `x\\y`, `x\\y`},
	{`x\\%y`, `x\`, `x\\`, `x\\%y`},
	{`x\\\%y`, `x\%y`, `x\\%y`, `x\\\%y`},
	{`x\\\\y`, `x\\y`, `x\\\\y`, `x\\\\y`},
	{`x\\\z`, `x\\z`, `x\\\z`, `x\\\z`},
	{`x\'\\'y`, `x\'\'y`, `x\'\\'y`, `x\'\\'y`},
	{`x\y`, `x\y`, `x\y`, `x\y`},
	{`x#y`, `x#y`, `x#y`, `x`},
	{"x ", "x ", "x ", "x"},
	{"x\ty", "x\ty", "x\ty", "x\ty"},
}

// What dibs reads is what Debian's cron and cronie read, or dibs says that they differ.
func TestTheReadingsOfCrons(t *testing.T) {
	for _, c := range readings {
		got, _, sure := percent(c.written)
		if sure != (c.debian == c.cronie) || sure && got != c.debian {
			t.Errorf("%q: %q, sure %v; Debian's %q, cronie's %q", c.written, got, sure, c.debian, c.cronie)
		}
	}
}

// measured are lines of a system's table, and whether Debian's cron 3.0pl1-162 reads a table with them.
var measured = []struct {
	line string
	read bool
}{
	{"", true}, {"#c", true}, {"  # c", true}, {"\t", true}, {"#c\r", true},
	{"\r", false}, {"\x00", false}, {"\x0c", false}, {"\ufeff#c", false},
	{"not a line", false}, {"nonsense", false}, {"'", false}, {"= = =", true},
	{"A=x", true}, {`A="x"`, true}, {"A = x ", true}, {` "A" = 'x y' `, true}, {"A=x # c", true}, {`A=a"b"`, true}, {`A=x"`, true},
	{`A="x" b`, false}, {"A='x' b", false}, {`A="x`, false}, {"A=", false}, {"A= ", false}, {`A=""`, true}, {"A='", false},
	{`A="x\"y"`, false}, {"A x=y", false}, {"A==x", true}, {"=x", true}, {`""=x`, true}, {"A-B=x", true}, {"A=x\r", true},
	{"* * * * * root true", true}, {"  *\t* * * *\troot\ttrue", true}, {"* * * * *", false}, {"* * * * * root", false},
	{"* * * * * root ", true}, {"* * * *", false}, {"* * * * *root true", false}, {"* * * * * * true", false},
	{"* * * * * root -n true", true}, {"* * * * * -n true", false}, {"-* * * * * root true", false}, {"* * * * * root * x", true},
	{"* * * * * no-such-user true", false}, {"* * * * * 0 true", false}, {"* * * * * root:root true", false},
	{"@daily root true", true}, {"@Daily root true", false}, {"@every 5m root true", false}, {"@foo root true", false}, {"@midnight root true", true},
	{"* * * * fri-mon root true", true}, {"* * * * 7 root true", true}, {"* * * * 8 root true", false}, {"* * * * monday root true", false},
	{"* * * * mon#1 root true", true}, {"* * * * friL root true", false}, {"* * L * * root true", false}, {"? * * * * root true", false},
	{"5-1 * * * * root true", true}, {"5/2 * * * * root true", false}, {"*/0 * * * * root true", false}, {"*/70 * * * * root true", true},
	{"60 * * * * root true", false}, {"1,,2 * * * * root true", false}, {"1-2-3 * * * * root true", true}, {"1.5 * * * * root true", true},
	{"0~30 * * * * root true", true}, {"5~ * * * * root true", true}, {"~30 * * * * root true", false}, {"51~L * * * * root true", true}, {"* * * 23-1 * root true", false},
	{"10~5 * * * * root true", true}, {"0~30/5 * * * * root true", true},
	{"* * * * * root " + strings.Repeat("x", 998), true}, {"* * * * * root " + strings.Repeat("x", 1100), false},
}

func TestUnreadLines(t *testing.T) {
	l := layout{system: true}
	for _, c := range measured {
		if why := l.unread(c.line + "\n"); (why == "") != c.read {
			t.Errorf("%q: %q; cron reads it: %v", c.line, why, c.read)
		}
	}
	for line, read := range map[string]bool{"# c": true, "@daily root true": false, "A=b": false} {
		if why := l.unread(line); (why == "") != read {
			t.Errorf("%q without a line end: %q", line, why)
		}
	}
}

// A table that Debian's cron would ignore is not written, and is drift where somebody made it so; where the installed
// cron leaves out only the line, other lines do not matter.
func TestATableThatCronWouldNotRead(t *testing.T) {
	ctx := context.Background()
	e := wanted("mail", "0 7 * * *")
	e.User = "no-such-user"
	for _, name := range []string{"table", "dibs-shop"} {
		f := fileAt(t, folder(t), name)
		if name == "table" {
			write(t, f.String(), "0 0 * * * root true\n")
		}
		before := mustRead(t, f).Documents()[0]
		for _, skips := range []bool{false, true} {
			f.LineByLine = skips
			if _, err := deploy.Apply(ctx, f, install(e), ""); err == nil || !strings.Contains(err.Error(), `no user "no-such-user"`) {
				t.Errorf("%s, an unknown user: %v", name, err)
			}
		}
		if after := mustRead(t, f).Documents()[0]; after != before {
			t.Errorf("%s was written: %+v", name, after)
		}
	}
	for _, line := range []string{"EMPTY=\n", "X=\"a\" b\n", "* * * * * no-such-user true\n", "no entry\n", "\r\n"} {
		f := fileAt(t, folder(t), "table")
		write(t, f.String(), "# mine\n")
		apply(t, f, install(wanted("mail", "0 7 * * *")))
		write(t, f.String(), read(t, f.String())+line)
		p, err := deploy.Prepare(ctx, f, install(wanted("mail", "0 7 * * *")))
		if err != nil || p.Clean() || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, "line 5") {
			t.Errorf("beside %q: %v %+v", line, err, p.Problems)
		}
		if _, err := deploy.Apply(ctx, f, install(wanted("mail", "0 7 * * *"), wanted("rates", "@daily")), ""); err == nil {
			t.Errorf("written beside %q", line)
		}
		f.LineByLine = true
		if p, err := deploy.Prepare(ctx, f, install(wanted("mail", "0 7 * * *"))); err != nil || !p.Clean() {
			t.Errorf("beside %q, with a cron that leaves out the line: %v %+v", line, err, p.Problems)
		}
	}
	f := fileAt(t, folder(t), "table")
	write(t, f.String(), "# mine\n")
	apply(t, f, install(wanted("mail", "0 7 * * *")))
	whole := read(t, f.String())
	write(t, f.String(), whole+"@daily root true")
	if p, err := deploy.Prepare(ctx, f, install(wanted("mail", "0 7 * * *"))); err != nil || p.Clean() {
		t.Errorf("beside a line without an end: %v %+v", err, p.Problems)
	}
	write(t, f.String(), whole)
	for mode, clean := range map[os.FileMode]map[bool]bool{0o664: {false: false, true: false}, 0o755: {false: true, true: false}, 0o600: {false: true, true: true}} {
		if err := os.Chmod(f.String(), mode); err != nil {
			t.Fatal(err)
		}
		for skips, want := range clean {
			f.LineByLine = skips
			if p, err := deploy.Prepare(ctx, f, install(wanted("mail", "0 7 * * *"))); err != nil || p.Clean() != want {
				t.Errorf("mode %o, line by line %v: %v %+v", mode, skips, err, p.Problems)
			}
		}
	}
}

// While a directory service is down, no line is said to have a user who does not exist.
func TestAUserWhoCannotBeLookedUpIsNotOneWhoIsNotThere(t *testing.T) {
	t.Parallel()
	l := layout{system: true, users: func(string) (bool, error) { return false, errors.New("getent passwd: it has not answered for 5s") }}
	if why := l.unread("* * * * * ann true\n"); !strings.Contains(why, `its user "ann" cannot be looked up: getent`) {
		t.Error(why)
	}
	m, err := newImage(l, "x", true, "* * * * * ann true\n* * * * * ben true\n")
	if err != nil {
		t.Fatal(err)
	}
	if why := m.unreadLine(m.table...); !strings.HasPrefix(why, "line 1: it is not known whether cron reads it: ") || strings.Contains(why, "delete it") {
		t.Error(why)
	}
	l.users = func(string) (bool, error) { return false, nil }
	if why := l.unread("* * * * * ann true\n"); why != `there is no user "ann" here` {
		t.Error(why)
	}
}

package crontab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
)

// fakeCrontab keeps a table in a file, and refuses one without a last line end, as Debian's does.
const fakeCrontab = `#!/bin/sh
t="$(dirname "$0")/table"
case "$1" in
-l) [ -e "$t" ] || { echo "no crontab for me" >&2; exit 1; }; cat "$t" ;;
-r) rm "$t" ;;
-) cat >"$t.new"; if [ -e "$t.refuse" ]; then echo "bad minute" >&2; exit 1; fi
   if [ -e "$t.other" ]; then cp "$t.other" "$t"; else mv "$t.new" "$t"; fi ;;
esac
`

func fakeUser(t *testing.T) (u *User, table string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "crontab")
	if err := os.WriteFile(program, []byte(fakeCrontab), 0o755); err != nil {
		t.Fatal(err)
	}
	u, err := NewUser("", program, Options{})
	if err != nil {
		t.Fatal(err)
	}
	u.home = dir
	return u, filepath.Join(dir, "table")
}

// A user's table is made, kept, changed and removed through crontab(1).
func TestUserTable(t *testing.T) {
	u, table := fakeUser(t)
	r := install(wanted("mail", "0 7 * * *"))
	apply(t, u, r)
	if s := read(t, table); !strings.Contains(s, "\n0 7 * * * /usr/bin/env PATH=") {
		t.Error(s)
	}
	if !apply(t, u, r).Clean() {
		t.Error("a second apply is not clean")
	}
	apply(t, u, deploy.Prune{App: "shop"})
	if _, err := os.Stat(table); !errors.Is(err, os.ErrNotExist) {
		t.Error("the empty table stays")
	}
	write(t, table, "# mine\n")
	apply(t, u, r)
	apply(t, u, deploy.Prune{App: "shop"})
	if s := read(t, table); s != "# mine\n" {
		t.Error(s)
	}
	e := wanted("other", "@daily")
	e.User = "nobody-else"
	if _, err := deploy.Apply(context.Background(), u, install(e), ""); err == nil || !strings.Contains(err.Error(), "nobody-else") {
		t.Error(err)
	}
}

// A table that crontab(1) refuses, or installs otherwise, is an error with what it said.
func TestUserTableRefused(t *testing.T) {
	u, table := fakeUser(t)
	write(t, table, "# mine\n")
	r := install(wanted("mail", "0 7 * * *"))
	write(t, table+".refuse", "")
	if _, err := deploy.Apply(context.Background(), u, r, ""); err == nil || !strings.Contains(err.Error(), "bad minute") || read(t, table) != "# mine\n" {
		t.Error(err)
	}
	if err := os.Remove(table + ".refuse"); err != nil {
		t.Fatal(err)
	}
	write(t, table+".other", "# somebody's\n")
	if _, err := deploy.Apply(context.Background(), u, r, ""); !errors.Is(err, deploy.ErrChanged) {
		t.Error(err)
	}
	u.program = "/nonexistent/crontab"
	if _, err := deploy.Prepare(context.Background(), u, r); err == nil || !strings.Contains(err.Error(), "/nonexistent/crontab") {
		t.Error(err)
	}
}

// Debian's crontab(1) takes what is written, for a user that no person has, and lists it byte for byte.
func TestRealCrontab(t *testing.T) {
	program, err := exec.LookPath("crontab")
	if err != nil {
		t.Skip("NOT COVERED: crontab(1) is not installed")
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT COVERED: the table of another user needs root")
	}
	name := ""
	for _, n := range []string{"games", "news", "uucp"} {
		if _, err := user.Lookup(n); err == nil && exec.Command(program, "-u", n, "-l").Run() != nil {
			name = n
			break
		}
	}
	if name == "" {
		t.Skip("NOT COVERED: no system user without a crontab")
	}
	u, err := NewUser(name, program, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command(program, "-u", name, "-r").Run() })
	if _, exists, err := u.list(context.Background()); err != nil || exists {
		t.Fatalf("exists %v: %v", exists, err)
	}
	a, b := wanted("mail", "0 7 * * MON-FRI", "@daily"), wanted("rates", "*/5 * * * *")
	r := install(a, b)
	apply(t, u, r)
	if !apply(t, u, r).Clean() {
		t.Error("a second apply is not clean")
	}
	apply(t, u, deploy.Eject{App: "shop", Jobs: []string{"rates"}})
	before, _, _ := u.list(context.Background())
	b.When = []string{"61 * * * *"} // which cron refuses: the table stays
	if _, err := deploy.Apply(context.Background(), u, install(a, b), ""); err == nil || !strings.Contains(err.Error(), "bad minute") {
		t.Error(err)
	}
	if after, _, _ := u.list(context.Background()); after != before {
		t.Errorf("%q, was %q", after, before)
	}
}

package crontab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// daemon runs Debian's cron in namespaces of its own, with the tables of a directory alone, until its jobs of the
// start have ended: sh -c daemon sh DIR. A user's table is read last, so its job is the last one that is started.
const daemon = `set -eu
mount --make-rprivate /
for path in /run /var/spool/cron; do mount -t tmpfs tmpfs "$path"; done
mkdir -p -m 1730 /var/spool/cron/crontabs
printf '@reboot touch %s/last\n' "$1" > /var/spool/cron/crontabs/root
chmod 600 /var/spool/cron/crontabs/root
mount --bind "$1/cron.d" /etc/cron.d
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
cd /
/usr/sbin/cron -f & cron=$!
while [ ! -e "$1/last" ] || [ -n "$(cat /proc/$cron/task/$cron/children)" ]; do
	kill -0 $cron
	sleep 0.05
done
kill $cron`

// A cronProbe is a table of its own for the real cron.
type cronProbe struct {
	text string
	mode os.FileMode
}

// ask has the real cron read tables. It returns which of them it read, and what the shell of their jobs got.
func ask(t *testing.T, probes []cronProbe) (read []bool, commands []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT COVERED: tables as Debian's cron reads them: it needs root")
	}
	if _, err := os.Stat("/etc/default/cron"); err != nil {
		t.Skip("NOT COVERED: tables as Debian's cron reads them: " + err.Error())
	}
	for _, program := range []string{"/usr/sbin/cron", "unshare", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("NOT COVERED: tables as Debian's cron reads them: " + err.Error())
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("NOT COVERED: tables as Debian's cron reads them: %v: %s", err, out)
	}
	dir := folder(t)
	for _, sub := range []string{"cron.d", "read", "commands"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell := filepath.Join(dir, "shell")
	write(t, shell, fmt.Sprintf("#!/bin/sh\nprintf %%s \"$2\" > %s/commands/$PROBE\n", dir))
	if err := os.Chmod(shell, 0o755); err != nil {
		t.Fatal(err)
	}
	for n, p := range probes {
		path := filepath.Join(dir, "cron.d", fmt.Sprint("p", n))
		write(t, path, fmt.Sprintf("@reboot root touch %s/read/%d\nSHELL=%s\nPROBE=%d\n%s", dir, n, shell, n, p.text))
		if err := os.Chmod(path, p.mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", daemon, "sh", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cron: %v\n%s", err, out)
	}
	for n := range probes {
		_, err := os.Stat(filepath.Join(dir, "read", fmt.Sprint(n)))
		command, _ := os.ReadFile(filepath.Join(dir, "commands", fmt.Sprint(n)))
		read, commands = append(read, err == nil), append(commands, string(command))
	}
	return read, commands
}

// drawn returns random texts of an alphabet.
func drawn(r *rand.Rand, n, longest int, alphabet ...string) (all []string) {
	for range n {
		var b strings.Builder
		for range 1 + r.IntN(longest) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		all = append(all, b.String())
	}
	return all
}

// Debian's cron reads the tables that dibs takes for readable, and no other: of lines by hand, of random fields, and
// of random variables.
func TestDebiansCronReads(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var lines []string
	for _, c := range measured {
		lines = append(lines, c.line)
	}
	for _, f := range drawn(r, 60, 4, "1", "5", "0", "60", "*", "-", "/", ",", "mon", "JAN", "7", ".", "L", "23") {
		for range 2 {
			fields := strings.Fields("* * * * *")
			fields[r.IntN(5)] = f
			lines = append(lines, strings.Join(fields, " ")+" root true")
		}
	}
	lines = append(lines, drawn(r, 60, 6, "A", "=", " ", "\"", "'", "b", "\t", "#", "\r", "\\")...)
	own := layout{system: true}
	var probes []cronProbe
	for _, l := range lines {
		probes = append(probes, cronProbe{l + "\n", 0o644})
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
	}{{"# no end", 0o644}, {"@daily root true", 0o644}, {"A=b", 0o644}, {"\n", 0o664}, {"\n", 0o646}, {"\n", 0o600}, {"\n", 0o755}} {
		probes = append(probes, cronProbe{c.text, c.mode})
	}
	read, _ := ask(t, probes)
	for n, p := range probes {
		why := own.unread(p.text)
		if p.mode&0o022 != 0 {
			why = "its mode"
		}
		if read[n] != (why == "") {
			t.Errorf("cron read %q, mode %o: %v; dibs says %q", p.text, p.mode, read[n], why)
		}
	}
}

// Debian's cron hands to the shell what dibs reads, or dibs says that crons differ.
func TestDebiansCronHandsOn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var all []string
	for c := ' '; c < 0x7f; c++ {
		all = append(all, `x\`+string(c)+"y")
	}
	for _, c := range readings {
		all = append(all, c.written)
	}
	for _, s := range drawn(r, 50, 8, `\`, "%", "'", "a", " ", `"`) {
		all = append(all, "x"+s)
	}
	var probes []cronProbe
	for _, c := range all {
		probes = append(probes, cronProbe{"@reboot root " + c + "\n", 0o644})
	}
	read, got := ask(t, probes)
	for n, c := range all {
		want, _, sure := percent(c)
		switch {
		case !read[n]:
			t.Errorf("%q: cron does not read it", c)
		case sure && got[n] != want:
			t.Errorf("%q: cron hands on %q, dibs %q", c, got[n], want)
		case !sure && got[n] == want:
			t.Errorf("%q: dibs takes it for one that crons differ over", c)
		}
	}
}

// crontab(1) refuses the lines of a user's table that dibs takes for unreadable, and no other.
func TestDebiansCrontabReads(t *testing.T) {
	if _, err := os.Stat("/etc/default/cron"); err != nil {
		t.Skip("NOT COVERED: users' tables as Debian's crontab reads them: " + err.Error())
	}
	path := filepath.Join(t.TempDir(), "table")
	write(t, path, "# c\n")
	if out, err := exec.Command("crontab", "-n", path).CombinedOutput(); err != nil {
		t.Skipf("NOT COVERED: users' tables as Debian's crontab reads them: %v: %s", err, out)
	}
	for _, line := range []string{"* * * * *", "* * * * * ", "* * * * *x", "* * * * * true", "@daily", "@daily x", "@daily * x", "* * * * * * x", "A=b", "A=",
		"A=\"b\" c", "5/2 * * * * x", "fri x", "* * * * * %", "-n", "* * * * * -n x", "* * * * * no-such-user x"} {
		write(t, path, line+"\n")
		err := exec.Command("crontab", "-n", path).Run()
		if why := (layout{}).unread(line + "\n"); (why == "") != (err == nil) {
			t.Errorf("%q: crontab -n: %v; dibs says %q", line, err, why)
		}
	}
}

package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/test/testdirs"
)

func TestMain(m *testing.M) { os.Exit(testdirs.Run(m)) }

// told is a systemd that notes what it is told.
type told struct {
	all  []string
	fail string // what is refused
}

func (s *told) Do(_ context.Context, args ...string) error {
	if s.fail == args[0] {
		return errors.New("no bus")
	}
	s.all = append(s.all, strings.Join(args, " "))
	return nil
}

// take is what it was told since the last take.
func (s *told) take() string {
	all := strings.Join(s.all, "; ")
	s.all = nil
	return all
}

func unitsAt(t *testing.T) (*Units, *told) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &told{}
	u, err := New(Options{Dir: dir, Manager: s})
	if err != nil {
		t.Fatal(err)
	}
	return u, s
}

func anEntry(job string) deploy.Entry {
	return deploy.Entry{ID: deploy.ID{App: "shop", Job: job}, When: []string{"*-*-* 04:15:00 UTC"}, Command: []string{"/usr/bin/dibs", "trigger", "shop/" + job}}
}

func apply(t *testing.T, u *Units, r deploy.Request) *deploy.Plan {
	t.Helper()
	p, err := deploy.Apply(t.Context(), u, r, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tree is everything below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&os.ModeSymlink != 0 {
			all[name], err = os.Readlink(path)
			return err
		}
		b, err := os.ReadFile(path)
		st, _ := d.Info()
		all[name] = fmt.Sprint(st.Mode(), " ", string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// systemd hears of what changed, in one reload, and of nothing where nothing did.
func TestSystemdIsToldOfChanges(t *testing.T) {
	u, s := unitsAt(t)
	a, b := anEntry("a"), anEntry("b")
	for _, c := range []struct {
		r    deploy.Request
		want string
	}{
		{deploy.Install{App: "shop", Entries: []deploy.Entry{a, b}}, "daemon-reload; restart dibs-shop.a.0.timer dibs-shop.b.0.timer"},
		{deploy.Install{App: "shop", Entries: []deploy.Entry{a, b}}, ""},
		{deploy.Install{App: "shop", Entries: []deploy.Entry{func() deploy.Entry { e := a; e.When = []string{"hourly"}; return e }(), b}},
			"daemon-reload; restart dibs-shop.a.0.timer"},
		{deploy.Prune{App: "shop", Entries: []deploy.Entry{a}}, "stop dibs-shop.b.0.timer; daemon-reload"},
		{deploy.Prune{App: "shop", Entries: []deploy.Entry{a}}, ""},
		{deploy.Eject{App: "shop"}, "daemon-reload; restart dibs-shop.a.0.timer"},
	} {
		apply(t, u, c.r)
		if got := s.take(); got != c.want {
			t.Errorf("%T: systemd was told %q, want %q", c.r, got, c.want)
		}
	}
}

// What systemd could not be told, the next apply tells, though no unit differs.
func TestWhatWasNotToldIsTold(t *testing.T) {
	u, s := unitsAt(t)
	install := deploy.Install{App: "shop", Entries: []deploy.Entry{anEntry("a")}}
	for _, verb := range []string{"daemon-reload", "restart"} {
		s.fail = verb
		if _, err := deploy.Apply(t.Context(), u, install, ""); err == nil || !strings.Contains(err.Error(), "apply again") {
			t.Fatal(err)
		}
		s.take()
	}
	s.fail = ""
	if p := apply(t, u, install); !strings.HasPrefix(s.take(), "daemon-reload; restart dibs-shop.a.0.timer") || p.Steps[0].Action != deploy.Unchanged {
		t.Error("it was not told")
	}
	if apply(t, u, install); s.take() != "" {
		t.Error("it was told again")
	}
}

// A disk that is full at any write leaves what the next apply repairs.
func TestAFullDiskIsRepaired(t *testing.T) {
	want, _ := unitsAt(t)
	install := deploy.Install{App: "shop", Entries: []deploy.Entry{anEntry("a"), anEntry("b")}}
	apply(t, want, install)
	for n := range 20 {
		u, s := unitsAt(t)
		left := n
		u.write = func(f *os.File, text string) error {
			if left--; left < 0 {
				_, _ = f.WriteString(text[:len(text)/2])
				return errors.New("no space left on device")
			}
			_, err := f.WriteString(text)
			return err
		}
		_, err := deploy.Apply(t.Context(), u, install, "")
		if err == nil {
			if n < 5 {
				t.Errorf("%d writes were enough for four units", n)
			}
			return
		}
		u.write = func(f *os.File, text string) error { _, err := f.WriteString(text); return err }
		s.take()
		apply(t, u, install)
		if got, want := tree(t, u.dir), tree(t, want.dir); !maps.Equal(got, want) {
			t.Errorf("after a failure of write %d: %v\nwant %v", n, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if !strings.Contains(s.take(), "daemon-reload; restart") {
			t.Error("systemd was not reloaded")
		}
	}
	t.Error("no apply went through")
}

// After a hundred random applies, prunes and ejects what others have is the same to the byte, and the last apply is
// complete.
func TestForeignUnitsStay(t *testing.T) {
	u, _ := unitsAt(t)
	foreign := map[string]string{"backup.timer": "[Timer]\nOnCalendar=daily", "backup.service": "x", "dibs-serve.service": "[Service]\n",
		"dibs-shop.other.0.timer": "# mine\n", "cronix-shop.timer": "# cronix:owned"}
	for name, text := range foreign {
		if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(u.dir, wants), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../backup.timer", filepath.Join(u.dir, wants, "backup.timer")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, u.dir)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var entries []deploy.Entry
		for _, job := range []string{"a", "b", "c-d"} {
			if e := anEntry(job); random.IntN(2) == 0 {
				e.When = []string{fmt.Sprintf("*-*-* %02d:00:00 UTC", random.IntN(24))}
				entries = append(entries, e)
			}
		}
		apply(t, u, deploy.Install{App: "shop", Entries: entries, Overwrite: true})
		apply(t, u, deploy.Prune{App: "shop", Entries: entries})
		if p := apply(t, u, deploy.Install{App: "shop", Entries: entries}); !p.Clean() || p.Changes() {
			t.Fatalf("%+v", p.Steps)
		}
	}
	apply(t, u, deploy.Prune{App: "shop"})
	if after := tree(t, u.dir); !maps.Equal(after, before) {
		t.Errorf("before\n%v\nafter\n%v", before, after)
	}
	e := anEntry("other")
	if _, err := deploy.Apply(t.Context(), u, deploy.Install{App: "shop", Entries: []deploy.Entry{e}}, ""); err == nil || !strings.Contains(err.Error(), "does not belong to dibs") {
		t.Errorf("a unit of somebody else's would have been replaced: %v", err)
	}
}

// A timer without its link, or with a changed service, is edited by hand, and kept; a drop-in is a problem.
func TestEditedUnits(t *testing.T) {
	u, _ := unitsAt(t)
	install := deploy.Install{App: "shop", Entries: []deploy.Entry{anEntry("a")}}
	apply(t, u, install)
	link, service := filepath.Join(u.dir, wants, "dibs-shop.a.0.timer"), filepath.Join(u.dir, "dibs-shop.a.0.service")
	for what, edit := range map[string]func() error{
		"disabled":   func() error { return os.Remove(link) },
		"appended":   func() error { return os.WriteFile(service, []byte("# dibs:entry shop/a#0\n[Service]\n"), 0o644) },
		"no service": func() error { return os.Remove(service) },
	} {
		if err := edit(); err != nil {
			t.Fatal(err)
		}
		if p := apply(t, u, install); p.Steps[0].Action != deploy.Edited {
			t.Errorf("%s: %s", what, p.Steps[0].Action)
		}
		over := install
		over.Overwrite = true
		apply(t, u, over)
		if p := apply(t, u, install); !p.Clean() {
			t.Errorf("%s: after Overwrite %+v", what, p.Steps)
		}
	}
}

// A root is a directory of units below a root of its own, as of an image: systemd looks there for all others too.
func unitsBelow(t *testing.T) (u *Units, root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.MkdirAll(root+SystemDir, 0o755); err != nil {
		t.Fatal(err)
	}
	u, err := New(Options{Dir: root + SystemDir, Manager: &told{}})
	if err != nil {
		t.Fatal(err)
	}
	return u, root
}

// Whatever systemd would read into a unit of dibs, by its name, its prefix or its type, and from wherever, is drift;
// so is a unit in its place. What a distribution or a container sets for all services is not, unless it changes what
// the unit says.
func TestDropIns(t *testing.T) {
	u, root := unitsBelow(t)
	e := anEntry("send-mail")
	e.App, e.Sandbox = "my-shop", []string{"NoNewPrivileges=true"}
	install := deploy.Install{App: "my-shop", Entries: []deploy.Entry{e}}
	apply(t, u, install)
	const fails = "[Service]\nExecStart=\nExecStart=/bin/false\n"
	for path, c := range map[string]struct {
		text  string
		drift bool
	}{
		"etc/systemd/system/dibs-my-shop.send-mail.0.service.d/x.conf":         {fails, true},
		"run/systemd/system/dibs-my-shop.send-mail.0.service.d/x.conf":         {fails, true},
		"etc/systemd/system.control/dibs-my-shop.send-mail.0.service.d/x.conf": {fails, true},
		"run/systemd/system/dibs-my-shop.send-.service.d/x.conf":               {fails, true},
		"usr/lib/systemd/system/dibs-my-.service.d/x.conf":                     {fails, true},
		"etc/systemd/system/dibs-.service.d/x.conf":                            {fails, true},
		"run/systemd/system/dibs-.service.d/x.conf":                            {"[Service]\n# note \\\nUser=nobody\n", true},
		"etc/systemd/system/dibs-.timer.d/x.conf":                              {"[Timer]\nOnCalendar=hourly\n", true},
		"etc/systemd/system/service.d/x.conf":                                  {fails, true},
		"run/systemd/system/service.d/x.conf":                                  {"[Service]\nNoNewPrivileges=no\n", true},
		"etc/systemd/system/timer.d/x.conf":                                    {"[Timer]\nOnCalendar=hourly\n", true},
		"etc/systemd/system.control/dibs-my-shop.send-mail.0.service":          {fails, true},
		"usr/lib/systemd/system/dibs-my-shop.send-mail.0.service":              {fails, false},
		"etc/systemd/system/dibs-your-.service.d/x.conf":                       {fails, false},
		"etc/systemd/system/dibs-my.service.d/x.conf":                          {fails, false},
		"etc/systemd/system/socket.d/x.conf":                                   {fails, false},
		"etc/systemd/system/dibs-.service.d/x.txt":                             {fails, false},
		"usr/lib/systemd/system/service.d/10-timeout-abort.conf":               {"[Service]\nTimeoutStopFailureMode=abort\n", false},
		"run/systemd/system/service.d/zzz-lxc.conf":                            {"# ExecStart=x\n[Service]\nProtectProc=default\nPrivateNetwork=no\n", false},
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := deploy.Prepare(t.Context(), u, install)
		if err != nil || p.Clean() == c.drift || c.drift && (len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, path)) {
			t.Errorf("%s: %v, drift %v; want %v: %+v", path, err, !p.Clean(), c.drift, p.Problems)
		}
		if systemdReads(t, root, path) != c.drift && !strings.Contains(path, "usr/lib/systemd/system/service.d") && !strings.Contains(path, "zzz-lxc") {
			t.Errorf("%s: systemd itself reads it: %v", path, !c.drift)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// What a unit's text sets is what systemd reads: comments never go on in the next line, also between the lines of one
// value.
func TestKeysAreThoseThatSystemdReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[Service]\n# note \\\nUser=nobody\n":                "User",
		"; note \\\n  User = nobody":                         "User",
		"ExecStart=a \\\nUser=nobody\nGroup=x\n":             "ExecStart Group",
		"ExecStart=a \\\n# note\nUser=nobody\nGroup=x\n":     "ExecStart Group",
		"ExecStart=a \\\n; note \\\nUser=nobody\nGroup=x\n":  "ExecStart Group",
		"ExecStart=a \\\\\nUser=nobody\n":                    "ExecStart User",
		"ExecStart=a \\\r\nUser=nobody\r\nGroup=x\r\n":       "ExecStart Group",
		"#User=nobody\n;Group=x\n[Service]\n\nExecStart=a\n": "ExecStart",
	} {
		if got := strings.Join(keys(text), " "); got != want {
			t.Errorf("%q sets %s, want %s", text, got, want)
		}
	}
}

// Without XDG_RUNTIME_DIR, as under cron, a user's run directories are those of the user, wherever dibs was started.
// No parallel test: the variable and the working directory are the process's.
func TestTheRunDirectoriesOfAUserWithoutTheVariable(t *testing.T) {
	for _, dir := range []string{"", "relative"} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		here := t.TempDir()
		t.Chdir(here)
		planted := filepath.Join(here, dir, "systemd", "user", "dibs-.service.d")
		if err := os.MkdirAll(planted, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(planted, "x.conf"), []byte("[Service]\nUser=nobody\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		u := &Units{dir: filepath.Join(t.TempDir(), ".config/systemd/user"), user: true}
		if want := fmt.Sprintf("/run/user/%d/systemd/user", os.Geteuid()); !slices.Contains(u.search(), want) {
			t.Errorf("%q: %v, want %s", dir, u.search(), want)
		}
		for _, d := range u.dropins() {
			if !filepath.IsAbs(d.path) {
				t.Errorf("%q: %s is read", dir, d.path)
			}
		}
	}
}

// systemdReads reports whether systemd reads a file when it loads the units.
func systemdReads(t *testing.T, root, path string) bool {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT COVERED: drop-ins as systemd reads them: " + err.Error())
	}
	cmd := exec.Command("systemd-analyze", "--root="+root, "--man=no", "verify", "dibs-my-shop.send-mail.0.timer", "dibs-my-shop.send-mail.0.service")
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=debug")
	out, _ := cmd.CombinedOutput() // it complains of much that is not there
	return strings.Contains(string(out), path)
}

// A user that the system does not have is drift of its units, and an apply is refused.
func TestUnknownUser(t *testing.T) {
	u := &Units{dir: SystemDir}
	for user, want := range map[string]string{"root": "", "no-such-user": `no user "no-such-user" here`} {
		if got := u.userless("[Service]\nUser=" + user + "\nExecStart=x\n"); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q", user, got)
		}
	}
	u.dir = "/elsewhere" // another system's
	if got := u.userless("User=no-such-user\n"); got != "" {
		t.Errorf("%q", got)
	}
}

// systemd takes every unit, whatever is in the words.
func TestUnitsAreValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT COVERED: units as systemd reads them: " + err.Error())
	}
	u, _ := unitsAt(t)
	nasty := []string{"", " ", "a b", "100%", "%n", "$HOME", "${X}", `back\slash`, `"`, "'", ";", "tab\tbed", "@x", "-x", "ümlaut", "#", "[Install]", `\x41`}
	e := anEntry("a")
	e.Command = append([]string{"/bin/echo"}, nasty...)
	e.Env = map[string]string{"A": strings.Join(nasty, "|"), "B": "", "C": `x"y\z%`}
	e.User, e.Persistent = "root", true
	e.Sandbox = []string{"NoNewPrivileges=true", "ProtectSystem=strict", "ProtectHome=tmpfs", "ReadWritePaths=/srv/a -/var/lib/dibs"}
	apart := e
	apart.Job, apart.Overlap = "b", true
	apply(t, u, deploy.Install{App: "shop", Entries: []deploy.Entry{e, apart}})
	files, _ := filepath.Glob(filepath.Join(u.dir, "dibs-*"))
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), u.dir) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, bad := range []string{"a\nb", "a\x00b", "\x1b"} {
		e := anEntry("a")
		e.Command = append(e.Command, bad)
		if _, err := u.render(e); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A sandbox is in the unit that runs the command, and no value of it can be another line of the unit.
func TestASandboxIsInTheUnit(t *testing.T) {
	u, _ := unitsAt(t)
	e := anEntry("a")
	e.Sandbox = []string{"ProtectSystem=strict", "ReadWritePaths=/srv/a -/var/lib/dibs"}
	want := map[bool]string{
		false: "\nProtectSystem=strict\nReadWritePaths=/srv/a -/var/lib/dibs\n",
		true:  ` --property=ProtectSystem=strict "--property=ReadWritePaths=/srv/a -/var/lib/dibs" `,
	}
	for overlap, text := range want {
		e.Overlap = overlap
		if got, err := u.service(e); err != nil || !strings.Contains(got, text) {
			t.Errorf("%v\n%s", err, got)
		}
	}
	for _, bad := range []string{"ProtectSystem=strict\nUser=root", "=x", "A", "A=%h", `A="b"`, "A=$X", "A=b\\"} {
		e.Sandbox = []string{bad}
		if got, err := u.service(e); err == nil {
			t.Errorf("%q is taken:\n%s", bad, got)
		}
	}
	e.Sandbox, u.user = []string{"ProtectSystem=strict"}, true
	if _, err := u.service(e); err == nil {
		t.Error("a user's unit is taken to have a sandbox")
	}
}

// A stop of an entry's service signals dibs alone, which ends its command itself and reports it.
// Holds: promise 15.
func TestAStopReachesDibsAlone(t *testing.T) {
	u, _ := unitsAt(t)
	for want, overlap := range map[string]bool{"\nKillMode=mixed\n": false, " --property=KillMode=mixed ": true} {
		e := anEntry("a")
		e.Overlap = overlap
		if text, err := u.service(e); err != nil || !strings.Contains(text, want) {
			t.Errorf("with overlap %v: %v\n%s", overlap, err, text)
		}
	}
}

package crontab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/disk"
	"github.com/dibs-run/dibs/internal/beneath"
)

func wanted(job string, when ...string) deploy.Entry {
	return deploy.Entry{ID: deploy.ID{App: "shop", Job: job}, When: when,
		Command: []string{"/usr/bin/dibs", "trigger", "shop/" + job, "--manifest", "/etc/shop/it's 100%.yaml"}}
}

func install(entries ...deploy.Entry) deploy.Install {
	return deploy.Install{App: "shop", Entries: entries}
}

// folder is a directory as /etc/cron.d: only this user may write to it.
func folder(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fileAt(t *testing.T, dir, name string) *File {
	t.Helper()
	f, err := NewFile(filepath.Join(dir, name), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.users = func(name string) (bool, error) { return !strings.HasPrefix(name, "no-"), nil } // whatever users this machine has
	return f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func apply(t *testing.T, to deploy.Target, r deploy.Request) *deploy.Plan {
	t.Helper()
	p, err := deploy.Apply(context.Background(), to, r, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func actions(p *deploy.Plan) string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, string(s.Action)+" "+s.Entry)
	}
	return strings.Join(all, ", ")
}

// The whole way of an app's own file: it is made, a second apply writes nothing, an update stays in place, a hand
// edit is kept until it is taken back, stale entries go with prune, and the file with its last entry.
func TestOwnFile(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "dibs-shop")
	a, b := wanted("invoices", "15 4 1 * *"), wanted("mail", "0 * * * *", "30 6 * * *")
	p := apply(t, f, install(b, a))
	if got := actions(p); got != "create shop/invoices#0, create shop/mail#0" {
		t.Error(got)
	}
	text := read(t, f.String())
	if !strings.Contains(text, "SHELL=/bin/sh\nPATH="+DefaultPath+"\n15 4 1 * * root /usr/bin/dibs trigger shop/invoices --manifest '/etc/shop/it'\"'\"'s 100\\%.yaml'\n") {
		t.Errorf("%s", text)
	}
	inode := inodeOf(t, f.String())
	if p := apply(t, f, install(a, b)); p.Changes() || !p.Clean() || inodeOf(t, f.String()) != inode {
		t.Errorf("a second apply: %s\n%s", actions(p), p.Diff)
	}
	a.When = []string{"16 4 1 * *"}
	if got := actions(apply(t, f, install(a, b))); got != "update shop/invoices#0, unchanged shop/mail#0" {
		t.Error(got)
	}
	write(t, f.String(), strings.Replace(read(t, f.String()), "30 6", "31 6", 1))
	edited := read(t, f.String())
	p = apply(t, f, install(a, b))
	if got := actions(p); got != "unchanged shop/invoices#0, edited shop/mail#0" || read(t, f.String()) != edited || p.Clean() {
		t.Error(got)
	}
	if got := actions(apply(t, f, deploy.Prune{App: "shop"})); got != "delete shop/invoices#0, edited shop/mail#0" {
		t.Error(got)
	}
	apply(t, f, deploy.Install{App: "shop", Entries: []deploy.Entry{a, b}, Overwrite: true})
	if got := actions(apply(t, f, install(a))); got != "unchanged shop/invoices#0, stale shop/mail#0" {
		t.Error(got)
	}
	apply(t, f, deploy.Prune{App: "shop", Entries: []deploy.Entry{a}})
	if s := read(t, f.String()); strings.Contains(s, "mail") || !strings.Contains(s, "16 4") {
		t.Error(s)
	}
	apply(t, f, deploy.Prune{App: "shop"})
	if _, err := os.Stat(f.String()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty file stays: %v", err)
	}
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// What another version of dibs wrote for the same specification is told from a hand edit and from an update.
func TestOutdatedRendering(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "dibs-shop")
	e := wanted("mail", "0 7 * * *")
	e.Declared = "0 7 * * * Europe/Berlin"
	apply(t, f, install(e))
	e.When = []string{"0 6 * * *", "0 7 * * *"}
	if got := actions(apply(t, f, install(e))); got != "rerender shop/mail#0" {
		t.Error(got)
	}
}

// An app's entries are found under its former name, and handed over in place.
func TestRename(t *testing.T) {
	dir := folder(t)
	write(t, dir+"/table", "# mine\n")
	f := fileAt(t, dir, "table")
	apply(t, f, install(wanted("mail", "0 7 * * *")))
	e := wanted("mail", "0 7 * * *")
	e.App = "store"
	r := deploy.Install{App: "store", Formerly: []string{"shop"}, Entries: []deploy.Entry{e}}
	if got := actions(apply(t, f, r)); got != "update store/mail#0" {
		t.Error(got)
	}
	if s := read(t, f.String()); strings.Contains(s, "entry shop/") || strings.Count(s, markBegin) != 1 {
		t.Error(s)
	}
	if !apply(t, f, r).Clean() {
		t.Error("a second time it is not clean")
	}
}

// A plan's hash holds its apply to what was looked at.
func TestPlanHash(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "table")
	write(t, f.String(), "# mine\n")
	r := install(wanted("mail", "0 7 * * *"))
	ctx := context.Background()
	p, err := deploy.Prepare(ctx, f, r)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := deploy.Prepare(ctx, f, r); again.Hash != p.Hash {
		t.Error("the hash is another one each time")
	}
	if !strings.Contains(p.Diff, "+0 7 * * * root /usr/bin/env PATH=") || !strings.Contains(p.Diff, " # mine\n") {
		t.Error(p.Diff)
	}
	write(t, f.String(), "# yours\n")
	if _, err := deploy.Apply(ctx, f, r, p.Hash); !errors.Is(err, deploy.ErrChanged) || read(t, f.String()) != "# yours\n" {
		t.Errorf("applied on something else: %v", err)
	}
	if err := f.Write(ctx, mustRead(t, f), mustRead(t, f)); err != nil {
		t.Error(err)
	}
	before := mustRead(t, f)
	write(t, f.String(), "# theirs\n")
	if err := f.Write(ctx, before, before); !errors.Is(err, deploy.ErrChanged) {
		t.Errorf("written over a change: %v", err)
	}
}

func mustRead(t *testing.T, to deploy.Target) deploy.Image {
	t.Helper()
	m, err := to.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The file keeps its mode, and an owner other than root's.
func TestOwnerAndMode(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "table")
	write(t, f.String(), "# mine\n")
	if err := os.Chmod(f.String(), 0o604); err != nil {
		t.Fatal(err)
	}
	gid := uint32(os.Getegid())
	if os.Geteuid() == 0 {
		gid = 12
		if err := os.Chown(f.String(), 0, int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, f, install(wanted("mail", "0 7 * * *")))
	var st unix.Stat_t
	if err := unix.Stat(f.String(), &st); err != nil || st.Mode&0o7777 != 0o604 || st.Gid != gid {
		t.Errorf("%v mode %o group %d", err, st.Mode, st.Gid)
	}
}

// Twenty applies at once, each of an entry of its own app: none is lost.
func TestAppliesAtOnce(t *testing.T) {
	dir := folder(t)
	write(t, dir+"/table", "# mine")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			e := wanted("mail", "0 7 * * *")
			e.App = "app" + string(rune('a'+i))
			f, err := NewFile(dir+"/table", Options{})
			if err == nil {
				_, err = deploy.Apply(context.Background(), f, deploy.Install{App: e.App, Entries: []deploy.Entry{e}}, "")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(read(t, dir+"/table"), markBegin); n != 20 {
		t.Errorf("%d entries", n)
	}
}

// A held lock is waited for, and not for ever.
func TestLockWaits(t *testing.T) {
	f := fileAt(t, folder(t), "table")
	unlock, err := f.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := deploy.Apply(ctx, f, install(), ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	unlock()
	if unlock, err = f.Lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A disk that is full in the middle of a write leaves the old file; what a crash left is removed by the next write.
func TestFullDisk(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "table")
	write(t, f.String(), "# mine\n")
	f.write = func(out *os.File, text string) error {
		_, _ = out.WriteString(text[:len(text)/2])
		return unix.ENOSPC
	}
	r := install(wanted("mail", "0 7 * * *"))
	if _, err := deploy.Apply(context.Background(), f, r, ""); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), f.String()) {
		t.Errorf("%v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 || read(t, f.String()) != "# mine\n" {
		t.Errorf("%v", names)
	}
	write(t, dir+"/.table.X.dibs-tmp", "half")
	f.write = disk.Text
	apply(t, f, r)
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("%v", names)
	}
}

// A link, a hard link or a pipe under the file's name is refused, and what it leads to stays.
func TestHostileFiles(t *testing.T) {
	for name, plant := range map[string]func(victim, path string) error{
		"symbolic link": os.Symlink,
		"hard link":     os.Link,
		"pipe":          func(_, path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		dir := folder(t)
		victim := filepath.Join(dir, "victim")
		write(t, victim, "0 0 * * * root true\n")
		f := fileAt(t, dir, "table")
		if err := plant(victim, f.String()); err != nil {
			t.Fatal(err)
		}
		_, err := deploy.Apply(context.Background(), f, install(wanted("mail", "0 7 * * *")), "")
		if !errors.Is(err, beneath.ErrRefused) || read(t, victim) != "0 0 * * * root true\n" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cron reads no file with a dot in its name, so none is written.
func TestFileNames(t *testing.T) {
	for _, bad := range []string{"/etc/cron.d/dibs.shop", "/etc/cron.d/", "/etc/cron.d/.x", "/etc/cron.d/x~"} {
		if _, err := NewFile(bad, Options{}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if f, err := NewFile(DefaultFile("shop"), Options{}); err != nil || f.String() != "/etc/cron.d/dibs-shop" {
		t.Error(f, err)
	}
}

// Tables in which it cannot be told what is dibs's are refused with the line, and stay.
func TestBrokenMarks(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "table")
	apply(t, f, install(wanted("mail", "0 7 * * *")))
	text := read(t, f.String())
	lines := splitLines(text)
	for name, broken := range map[string]string{
		"no end":   strings.Join(lines[:len(lines)-1], ""),
		"no begin": strings.Join(lines[1:], ""),
		"twice":    text + text,
		"no ID":    strings.Replace(text, "# dibs:entry shop/mail#0", "# dibs:entry ../x", 1),
	} {
		write(t, f.String(), broken)
		_, err := deploy.Apply(context.Background(), f, install(wanted("mail", "0 8 * * *")), "")
		if err == nil || !strings.Contains(err.Error(), "line") || read(t, f.String()) != broken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What cron or this table cannot say is refused for each job, all at once, and nothing is written.
func TestRefusals(t *testing.T) {
	dir := folder(t)
	own, shared := fileAt(t, dir, "dibs-shop"), fileAt(t, dir, "table")
	zone, mail := wanted("zone", "0 7 * * *"), wanted("mail", "0 7 * * *")
	zone.Zone = "Europe/Berlin"
	to := "ops@example.org"
	mail.MailTo = &to
	long, relative, seconds := wanted("long", "0 7 * * *"), wanted("relative", "0 7 * * *"), wanted("seconds", "0 0 7 * * *")
	long.Command = append(long.Command, strings.Repeat("x", 1000))
	relative.Command = []string{"dibs"}
	control := wanted("control", "@daily")
	control.Command = append(control.Command, "two\nlines")
	every, reboot, user := wanted("every", "@every 90m"), wanted("reboot", "@reboot"), wanted("user", "@daily")
	user.User = "root; x"
	_, err := deploy.Apply(context.Background(), own, install(zone, long, relative, seconds, control, every, reboot, user), "")
	for _, job := range []string{"zone", "long", "relative", "seconds", "control", "every", "reboot", "user"} {
		if err == nil || !strings.Contains(err.Error(), "shop/"+job+"#0: ") {
			t.Errorf("%s is not refused: %v", job, err)
		}
	}
	if _, err := deploy.Apply(context.Background(), shared, install(mail), ""); err == nil || !strings.Contains(err.Error(), DefaultFile("shop")) {
		t.Error(err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Error(names)
	}
	own.Zones = true
	apply(t, own, install(zone))
	// The zone of one entry would count for the next one.
	if _, err := deploy.Apply(context.Background(), own, install(wanted("yard", "0 7 * * *"), zone), ""); err == nil || !strings.Contains(err.Error(), "CRON_TZ") {
		t.Error(err)
	}
}

// A variable of others above a block that changes what the block does is a problem with its line.
func TestVariablesAbove(t *testing.T) {
	dir := folder(t)
	f := fileAt(t, dir, "table")
	f.Zones = true
	r := install(wanted("mail", "0 7 * * *"))
	for _, set := range []string{"SHELL=/usr/bin/fish\n", "CRON_TZ=Asia/Tokyo\n", " \"SHELL\" = '/bin/false'\n"} {
		write(t, f.String(), "# mine\n"+set)
		if _, err := deploy.Apply(context.Background(), f, r, ""); err == nil || !strings.Contains(err.Error(), "line 2 sets") {
			t.Errorf("%q: %v", set, err)
		}
	}
	write(t, f.String(), "SHELL=/bin/bash\nPATH=/x\nMAILTO=me\n* * * * * me run\n")
	if p := apply(t, f, r); len(p.Foreign) != 1 || p.Foreign[0] != (deploy.Foreign{Where: "line 4", Text: "* * * * * me run"}) {
		t.Errorf("%+v", p.Foreign)
	}
	// Somebody adds such a variable later: the text is the same, and it is drift.
	write(t, f.String(), strings.Replace(read(t, f.String()), "SHELL=/bin/bash", "SHELL=/bin/false", 1))
	if p, err := deploy.Prepare(context.Background(), f, r); err != nil || p.Clean() {
		t.Errorf("%v %s", err, actions(p))
	}
	if _, err := deploy.Apply(context.Background(), f, r, ""); err == nil || !strings.Contains(err.Error(), "sets SHELL=/bin/false") {
		t.Errorf("an apply says nothing of it: %v", err)
	}
	// It is no reason to keep another app from its pruning.
	apply(t, f, deploy.Prune{App: "other"})
	apply(t, f, deploy.Prune{App: "shop"})
}

// A missing last line end comes back when the last block goes, in whatever order they go, and not where somebody
// wrote another last line meanwhile.
func TestMissingLineEnd(t *testing.T) {
	a, b := wanted("a", "@daily"), wanted("b", "@daily")
	for _, keep := range [][]deploy.Entry{{a}, {b}, {a, b}} {
		f := fileAt(t, folder(t), "table")
		write(t, f.String(), "# first\n# mine")
		apply(t, f, install(a, b))
		apply(t, f, deploy.Prune{App: "shop", Entries: keep})
		apply(t, f, deploy.Prune{App: "shop"})
		if s := read(t, f.String()); s != "# first\n# mine" {
			t.Errorf("%q", s)
		}
	}
	f := fileAt(t, folder(t), "table")
	write(t, f.String(), "# mine")
	apply(t, f, install(a))
	write(t, f.String(), strings.Replace(read(t, f.String()), "# mine\n", "# mine\n* * * * * me run\n", 1))
	apply(t, f, deploy.Prune{App: "shop"})
	if s := read(t, f.String()); s != "# mine\n* * * * * me run\n" {
		t.Errorf("%q", s)
	}
}

// In a file of dibs's own the variables of a block count for the lines below, so an entry of somebody else there is a
// problem; comments are none. An address that one entry sets counts for the others too.
func TestOwnFileIsAlone(t *testing.T) {
	f := fileAt(t, folder(t), "dibs-shop")
	a, b := wanted("a", "@daily"), wanted("b", "@daily")
	write(t, f.String(), "# a comment\nX=1\n")
	apply(t, f, install(a))
	text := read(t, f.String())
	write(t, f.String(), text+"* * * * * me run\n")
	p, err := deploy.Apply(context.Background(), f, install(a, b), "")
	if err == nil || !strings.Contains(err.Error(), "does not belong to dibs") || read(t, f.String()) != text+"* * * * * me run\n" {
		t.Error(p, err)
	}
	write(t, f.String(), text)
	to := "ops@example.org,me"
	a.MailTo = &to
	if _, err := deploy.Apply(context.Background(), f, install(a, b), ""); err == nil || !strings.Contains(err.Error(), "sets MAILTO=ops@example.org,me") {
		t.Error(err)
	}
	b.MailTo = &to
	apply(t, f, install(a, b))
	if !apply(t, f, install(a, b)).Clean() {
		t.Error("not clean")
	}
}

// cron compares times in whole seconds: each write is seen by one that looked just before.
func TestCronSeesEachWrite(t *testing.T) {
	f := fileAt(t, folder(t), "dibs-shop")
	looks := func() (all [2]int64) {
		for i, path := range []string{filepath.Dir(f.String()), f.String()} {
			if st, err := os.Stat(path); err == nil {
				all[i] = st.ModTime().Unix()
			}
		}
		return all
	}
	e := deploy.Entry{ID: deploy.ID{App: "shop", Job: "mail"}, Command: []string{"/usr/bin/dibs", "trigger", "shop/mail"}}
	for n := range 5 {
		before := looks()
		e.When = []string{fmt.Sprintf("%d * * * *", n)}
		apply(t, f, install(e))
		if after := looks(); after[0] == before[0] || after[1] == before[1] {
			t.Errorf("write %d: the directory and the file had %v, and have %v", n, before, after)
		}
	}
	before := looks()
	apply(t, f, deploy.Prune{App: "shop"})
	if looks()[0] == before[0] {
		t.Error("a removal is not seen")
	}
}

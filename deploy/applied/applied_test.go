package applied

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func record(target string) Record {
	return Record{App: "shop", Target: target, Manifest: "/etc/shop.yaml", To: "crontab", Args: []string{"--to=crontab"}}
}

func TestRecordsAreKept(t *testing.T) {
	at := Records(filepath.Join(t.TempDir(), "a", "applied"))
	if all, err := at.All(); len(all) != 0 || err != nil {
		t.Fatal(all, err)
	}
	one, two := record("/etc/cron.d/dibs-shop"), record("eventbridge eu/../../dibs shop\n")
	for _, r := range []Record{two, one} {
		if err := at.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := at.All(); err != nil || !reflect.DeepEqual(all, []Record{one, two}) {
		t.Fatalf("%+v, %v", all, err)
	}
	file := filepath.Join(string(at), fileName(one.App, one.Target))
	was, _ := os.Stat(file)
	if err := at.Put(one); err != nil {
		t.Fatal(err)
	}
	if is, _ := os.Stat(file); !os.SameFile(was, is) {
		t.Error("an equal record is written again")
	}
	if err := at.Drop(one.App, one.Target); err != nil {
		t.Fatal(err)
	}
	if err := at.Drop(one.App, one.Target); err != nil {
		t.Errorf("dropping what is not there: %v", err)
	}
	if all, _ := at.All(); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

// A record decides which files and addresses are read, so one that another user may have written is refused; the
// others are read all the same.
func TestRecordsOfOthersAreRefused(t *testing.T) {
	at := Records(t.TempDir())
	for _, target := range []string{"a", "b", "c", "d"} {
		if err := at.Put(record(target)); err != nil {
			t.Fatal(err)
		}
	}
	file := func(target string) string { return filepath.Join(string(at), fileName("shop", target)) }
	if err := os.Chmod(file("a"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file("b"), filepath.Join(string(at), "shop@other.json")); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "x")
	if err := os.Rename(file("c"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, file("c")); err != nil {
		t.Fatal(err)
	}
	all, err := at.All()
	if len(all) != 1 || all[0].Target != "d" || err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.Chmod(string(at), 0o777); err != nil {
		t.Fatal(err)
	}
	if all, err := at.All(); len(all) != 0 || err == nil {
		t.Errorf("of a directory that everybody may write to: %+v, %v", all, err)
	}
}

// A group may share the directory of a store, and the member who makes a directory of records there would decide what
// root runs.
func TestASharedDirectoryHasNoRecordsAndNoCopies(t *testing.T) {
	parent := t.TempDir()
	at := Records(filepath.Join(parent, "applied"))
	if err := at.Put(record("a")); err != nil {
		t.Fatal(err)
	}
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(string(at), fileName("shop", "a"))
	chmod(file, 0o660)
	if all, err := at.All(); len(all) != 0 || !errors.Is(err, ErrShared) {
		t.Errorf("a record that a group may write: %+v, %v", all, err)
	}
	chmod(file, 0o600)
	chmod(string(at), 0o770)
	if all, err := at.All(); len(all) != 0 || !errors.Is(err, ErrShared) {
		t.Errorf("records of a group: %+v, %v", all, err)
	}
	if err := at.Put(record("a")); !errors.Is(err, ErrShared) {
		t.Error(err)
	}
	chmod(string(at), 0o700)
	chmod(parent, 0o2770)
	if all, err := at.All(); len(all) != 0 || err != nil {
		t.Errorf("records in a directory of a group: %+v, %v", all, err)
	}
	if err := at.Put(record("b")); !errors.Is(err, ErrShared) {
		t.Error(err)
	}
	if err := at.Drop("shop", "a"); err != nil {
		t.Error(err)
	}
	chmod(parent, 0o755)
	if all, err := at.All(); len(all) != 1 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(string(at), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if all, err := at.All(); len(all) != 0 || err == nil {
			t.Errorf("records of another user: %+v, %v", all, err)
		}
	}
	specs, one := Specs(filepath.Join(parent, "specs")), Spec{"shop", "works", []byte("1"), -1}
	if err := specs.Put([]Spec{one}); err != nil {
		t.Fatal(err)
	}
	chmod(specs.Path(one), 0o660)
	if why := specs.Differs(one); !strings.Contains(why, ErrShared.Error()) {
		t.Errorf("a copy that a group may write: %q", why)
	}
	chmod(specs.Path(one), 0o600)
	chmod(string(specs), 0o2770)
	if err := specs.Put([]Spec{one}); !errors.Is(err, ErrShared) {
		t.Errorf("copies in a directory of a group: %v", err)
	}
	if why := specs.Differs(one); !strings.Contains(why, ErrShared.Error()) {
		t.Errorf("copies in a directory of a group: %q", why)
	}
}

func TestSpecs(t *testing.T) {
	at := Specs(filepath.Join(t.TempDir(), "x", "specs"))
	one, two := Spec{"shop", "works", []byte("1"), -1}, Spec{"shop", "works", []byte("2"), -1}
	other := Spec{"shop-b", "works", []byte("1"), -1}
	if one.FileName() == two.FileName() {
		t.Fatal("two texts have one name")
	}
	if why := at.Differs(one); !strings.Contains(why, "missing") {
		t.Error(why)
	}
	if err := at.Put([]Spec{one, two, other}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(at.Path(one)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	// Another group has a copy of its own, and the first one's stays as it is.
	shared := one
	shared.Group = os.Getgid()
	if err := at.Put([]Spec{shared}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(at.Path(shared)); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("for a group: %v, %v", st.Mode(), err)
	}
	if why := at.Differs(one) + at.Differs(shared); why != "" {
		t.Error(why)
	}
	if err := os.Chmod(at.Path(shared), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := at.Differs(shared); !strings.Contains(why, "has mode 0600, not 0640") {
		t.Errorf("what the group cannot read: %q", why)
	}
	if err := os.Chmod(at.Path(shared), 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(at.Path(shared), 0, 12345); err != nil {
			t.Fatal(err)
		}
		if why := at.Differs(shared); !strings.Contains(why, "has group 12345") {
			t.Errorf("what another group reads: %q", why)
		}
	}
	if err := os.WriteFile(at.Path(one), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := at.Differs(one); !strings.Contains(why, "changed by hand") {
		t.Error(why)
	}
	if err := at.Put([]Spec{one}); err != nil || at.Differs(one) != "" {
		t.Error(err, at.Differs(one))
	}
	// Only what the app's entries named, and name no more, goes.
	former := Spec{"shop", "works", []byte("0"), -1}
	if err := at.Put([]Spec{former}); err != nil {
		t.Fatal(err)
	}
	before := []string{"a line with " + at.Path(one), at.Path(two) + " " + at.Path(other), "/elsewhere" + at.Path(former)}
	if err := at.Sweep("shop", before, []string{"a line with " + at.Path(two)}); err != nil {
		t.Fatal(err)
	}
	if why := at.Differs(former); why != "" {
		t.Errorf("what no entry here named is gone: %s", why)
	}
	if at.Differs(one) == "" || at.Differs(two) != "" || at.Differs(other) != "" {
		t.Error(at.Differs(one), at.Differs(two), at.Differs(other))
	}
}

// Entries run as other users, who must get at their copies.
func TestDirectoriesOfCopiesArePublic(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	at := Specs(filepath.Join(t.TempDir(), "x", "y", "specs"))
	if err := at.Put([]Spec{{"shop", "works", []byte("1"), -1}}); err != nil {
		t.Fatal(err)
	}
	for dir := string(at); filepath.Base(dir) != "x"; dir = filepath.Dir(dir) {
		if st, err := os.Stat(filepath.Dir(dir)); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", filepath.Dir(dir), st.Mode(), err)
		}
	}
}

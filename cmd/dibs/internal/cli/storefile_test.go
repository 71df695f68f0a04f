package cli

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
)

// A file that names the store may have comments. What people paste into it from a crontab is refused with the
// cure, and without the password.
func TestStoreFile(t *testing.T) {
	const url = "mysql://app:hunter2@db/app"
	for _, c := range []struct{ text, says string }{
		{url, ""},
		{"# the fleet's store\n\n  " + url + "\n", ""},
		{"DIBS_STORE=" + url + "\n", "without DIBS_STORE= and"},
		{"export DIBS_STORE=" + url + "\n", "without DIBS_STORE= and"},
		{url + "\nredis://h/0\n", "it has 2 lines beside comments"},
		{url + "   # the fleet's", "put the comment on its own line"},
		{"/hunter2/key\n", "its line is no address, and no directory in one that is there"},
		{"/hunter2\n", "its line is no address, and no directory in one that is there"},
	} {
		path := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DIBS_STORE", "") // which puts it back
		if err := os.Unsetenv("DIBS_STORE"); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DIBS_STORE_FILE", path)
		a, err := resolve("")
		switch {
		case c.says == "" && (err != nil || a.implicit || a.Config.String() != "mysql://app:xxxxx@db/app"):
			t.Errorf("%q: %v, %v", c.text, a, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// Only a group of services may read root's file beside it: not a group of people, and no file of somebody else's.
// Holds: H3.
func TestWhoMayReadTheStoreFile(t *testing.T) {
	const nobodys = 4_000_000
	for _, c := range []struct {
		uid, gid uint32
		want     string
	}{{0, nobodys, "4000000"}, {0, 0, ""}, {0, 1, ""}, {1000, nobodys, ""}} { // group 1 is daemon
		if got := readers(unix.Stat_t{Uid: c.uid, Gid: c.gid}); got != c.want {
			t.Errorf("%d:%d: %q, want %q", c.uid, c.gid, got, c.want)
		}
	}
	if g, err := user.LookupGroup(doctor.ServiceGroup); err == nil {
		gid, err := strconv.Atoi(g.Gid)
		if got := readers(unix.Stat_t{Gid: uint32(gid)}); err != nil || got != doctor.ServiceGroup {
			t.Errorf("group %s: %q, %v", g.Name, got, err)
		}
	}
}

// Who may not read the file is told what to do.
func TestTheStoreFileIsOthers(t *testing.T) {
	_, err := os.ReadFile(filepath.Join(t.TempDir(), "none"))
	if got := unread(err).Error(); strings.Contains(got, "sudo") {
		t.Error(got)
	}
	err = unread(&fs.PathError{Op: "open", Path: "/etc/dibs/store", Err: unix.EACCES})
	if got := err.Error(); !strings.Contains(got, "/etc/dibs/store: permission denied; root and the file's group may: use sudo, or name a store of your own") {
		t.Error(got)
	}
}

// cron takes all of DIBS_STORE='s line as the value, with the comment behind it.
func TestACommentBehindTheStore(t *testing.T) {
	t.Setenv("DIBS_STORE", "redis://:hunter2@h/0        # or, better, a file")
	if _, err := resolve(""); err == nil || !strings.Contains(err.Error(), "a comment follows it") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

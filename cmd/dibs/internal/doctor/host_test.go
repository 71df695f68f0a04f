package doctor_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/cmd/dibs/internal/unit"
	"github.com/dibs-run/dibs/internal/spool"
)

// A host's directory with the wrong owner or mode, or on a network file system, is found.
// Holds: promise 25.
func TestHostDirectory(t *testing.T) {
	fine := doctor.Directory{Path: "/d", ID: "abc", UID: 1000, Mode: os.ModeDir | 0o700}
	for _, c := range []struct {
		name   string
		change func(*doctor.Directory)
		uid    int
		check  string
		want   doctor.Severity
	}{
		{"mine", nil, 1000, "", ""},
		{"root looks at somebody's", nil, 0, "directory-owner", doctor.Error},
		{"a group's", func(d *doctor.Directory) { d.Mode |= 0o070 }, 1001, "", ""},
		{"somebody else's", nil, 1001, "directory-owner", doctor.Error},
		{"everybody reads", func(d *doctor.Directory) { d.Mode |= 0o005 }, 1000, "directory-mode", doctor.Warning},
		{"everybody writes", func(d *doctor.Directory) { d.Mode |= 0o002 }, 1000, "directory-mode", doctor.Error},
		{"NFS", func(d *doctor.Directory) { d.SharedFS = "NFS" }, 1000, "directory-network", doctor.Error},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fine
			if c.change != nil {
				c.change(&d)
			}
			all := doctor.HostDirectory(d, c.uid)
			if f := want(t, all, "directory", doctor.Info); !strings.Contains(f.What, "abc") {
				t.Errorf("the id is missing: %s", f.What)
			}
			for _, check := range []string{"directory-owner", "directory-mode", "directory-network"} {
				s := doctor.Severity("")
				if check == c.check {
					s = c.want
				}
				want(t, all, check, s)
			}
		})
	}
	want(t, []doctor.Finding{doctor.NoDirectory("/d")}, "directory", doctor.Info)
	want(t, []doctor.Finding{doctor.Unreadable("/d", errors.New("no"))}, "directory", doctor.Error)
}

// A second directory on the host is found, with whose it is and how to use one for all.
// Holds: promise 25.
func TestOtherDirectories(t *testing.T) {
	want(t, doctor.OtherDirectories("/d", nil), "directory-other", "")
	f := want(t, doctor.OtherDirectories("/d", []doctor.Directory{{Path: "/other", ID: "xyz", UID: 4711}}), "directory-other", doctor.Warning)
	if f.Where != "/other" || !strings.Contains(f.What, "xyz") || !strings.Contains(f.What, "uid 4711") || !strings.Contains(f.Cure, "DIBS_DIR=/d") {
		t.Errorf("%+v", f)
	}
}

// A unit by which systemd would end the jobs with the server is found, with what to do.
// Holds: promise 25.
func TestUnits(t *testing.T) {
	u := unit.Unit{Name: "dibs.service", Path: "/etc/systemd/system/dibs.service", User: "shop"}
	for mode, s := range map[string]doctor.Severity{"mixed": "", "process": "", unit.ControlGroup: doctor.Warning} {
		u.KillMode = mode
		if f := want(t, doctor.Units([]unit.Unit{u}), "unit-kill-mode", s); s != "" && (f.Where != u.Path || !strings.Contains(f.Cure, "KillMode=mixed")) {
			t.Errorf("%+v", f)
		}
	}
	u.User = "" // root's, whose jobs have scopes of their own
	want(t, doctor.Units([]unit.Unit{u}), "unit-kill-mode", "")
}

// Rule H3.
// Holds: promise 25, H3.
func TestStoreFile(t *testing.T) {
	for mode, s := range map[os.FileMode]doctor.Severity{0o600: "", 0o400: "", 0o640: doctor.Error, 0o644: doctor.Error, 0o700: doctor.Error} {
		want(t, doctor.StoreFile("/etc/dibs/store", mode, ""), "store-file-mode", s)
	}
	// As the package has it: root's, and its services read it.
	for mode, s := range map[os.FileMode]doctor.Severity{0o640: "", 0o440: "", 0o600: "", 0o660: doctor.Error, 0o644: doctor.Error, 0o650: doctor.Error} {
		f := want(t, doctor.StoreFile("/etc/dibs/store", mode, "dibs"), "store-file-mode", s)
		if s != "" && !strings.Contains(f.Cure, "chmod 0640") {
			t.Errorf("%+v", f)
		}
	}
}

// A spool that waits is found, with how much there is, since when, and how to deliver it.
// Holds: promise 25.
func TestSpool(t *testing.T) {
	want(t, doctor.Spool(nil, "a-dibs"), "spool", "")
	since := time.Date(2026, 11, 21, 4, 15, 0, 0, time.UTC)
	all := doctor.Spool([]spool.Backlog{{Store: "a-dibs", Path: "/d/spool/a-dibs.jsonl", Items: 3, Since: since}}, "a-dibs")
	if f := want(t, all, "spool", doctor.Warning); !strings.Contains(f.What, "3 outcomes") || !strings.Contains(f.What, "2026-11-21T04:15:00Z") || strings.Contains(f.Cure, "namespace") {
		t.Errorf("%+v", f)
	}
	all = doctor.Spool([]spool.Backlog{{Store: "b-my-own", Path: "p", Items: 1}}, "a-dibs")
	if f := want(t, all, "spool", doctor.Warning); !strings.Contains(f.Cure, "installation is b and ?namespace=my-own") {
		t.Errorf("%+v", f)
	}
}

// The limit of descriptors is compared with what the commands of a manifest need.
// Holds: promise 25.
func TestDescriptors(t *testing.T) {
	for _, c := range []struct {
		limit    uint64
		commands int
		found    int
	}{{64, 0, 0}, {63, 0, 1}, {64, 60, 1}, {544, 60, 0}, {543, 60, 1}, {1 << 20, 10_000, 0}} {
		if all := doctor.Descriptors(c.limit, c.commands); len(all) != c.found || c.found > 0 && all[0].Severity != doctor.Warning {
			t.Errorf("%d descriptors for %d commands: %+v", c.limit, c.commands, all)
		}
	}
}

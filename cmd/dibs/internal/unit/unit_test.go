package unit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes the files of a host.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	serve = "[Unit]\nKillMode=process\n[Service]\nExecStart=/usr/bin/dibs serve /etc/dibs/jobs.yaml\n"
	mixed = "[Service]\nKillMode=mixed\n"
)

// Units that run dibs are found with their KillMode, wherever systemd takes it from.
// Holds: promise 25.
func TestUnits(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the KillMode; empty: there is no such unit
	}{
		"says nothing": {map[string]string{"etc/systemd/system/a.service": serve}, "control-group"},
		"mixed":        {map[string]string{"usr/lib/systemd/system/a.service": serve + "KillMode=mixed\n"}, "mixed"},
		"a comment":    {map[string]string{"etc/systemd/system/a.service": serve + "# KillMode=mixed\n"}, "control-group"},
		"behind a comment that ends in a backslash": {map[string]string{"etc/systemd/system/a.service": serve + "# note \\\nKillMode=mixed\n"}, "mixed"},
		"taken back":              {map[string]string{"etc/systemd/system/a.service": serve + "KillMode=mixed\nKillMode=\n"}, "control-group"},
		"by a drop-in":            {map[string]string{"lib/systemd/system/a.service": serve, "etc/systemd/system/a.service.d/10.conf": mixed}, "mixed"},
		"by one for all services": {map[string]string{"lib/systemd/system/a.service": serve, "etc/systemd/system/service.d/10.conf": mixed}, "mixed"},
		"by the later drop-in": {map[string]string{"lib/systemd/system/a.service": serve, "run/systemd/system/a.service.d/20.conf": "[Service]\nKillMode=control-group\n",
			"etc/systemd/system/a.service.d/10.conf": mixed}, "control-group"},
		"by the more important drop-in of its name": {map[string]string{"lib/systemd/system/a.service": serve,
			"lib/systemd/system/a.service.d/10.conf": "[Service]\nKillMode=process\n", "etc/systemd/system/a.service.d/10.conf": mixed}, "mixed"},
		"the more important unit": {map[string]string{"lib/systemd/system/a.service": serve, "etc/systemd/system/a.service": serve + "KillMode=mixed\n"}, "mixed"},
		"a worker, wrapped":       {map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=-/usr/bin/env X=1 \\\n  \"/opt/dibs\" work mail -- ./mail\n"}, "control-group"},
		"another program":         {map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=/usr/bin/dibsy serve\n"}, ""},
		"another command":         {map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStart=dibs run --key k -- true\n"}, ""},
		"not a start":             {map[string]string{"etc/systemd/system/a.service": "[Service]\nExecStop=dibs serve x\n"}, ""},
		"another program after all": {map[string]string{"etc/systemd/system/a.service": serve,
			"etc/systemd/system/a.service.d/x.conf": "[Service]\nExecStart=\nExecStart=/bin/true\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Find(write(t, c.files))
			switch {
			case c.want == "" && len(got) == 0:
			case len(got) != 1 || got[0].Name != "a.service" || got[0].KillMode != c.want:
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

// A process asks for scopes only where it may.
// Holds: promise 25.
func TestWhoMayAskForScopes(t *testing.T) {
	for text, want := range map[string]bool{"": true, "User=root\n": true, "User=0\n": true, "User=shop\n": false, "User=shop\nUser=\n": true,
		"DynamicUser=yes\n": false, "DynamicUser=no\n": true, "DynamicUser=on\nUser=shop\n": false} {
		got := Find(write(t, map[string]string{"etc/systemd/system/a.service": serve + text}))
		if len(got) != 1 || got[0].Scoped() != want {
			t.Errorf("%q: %+v, want %t", text, got, want)
		}
	}
}

// The unit that a process belongs to is told by its control group.
// Holds: promise 25.
func TestOwn(t *testing.T) {
	root := write(t, map[string]string{"etc/systemd/system/a.service": serve, "etc/systemd/system/b@.service": serve + "KillMode=mixed\n"})
	for cgroup, want := range map[string]string{
		"0::/system.slice/a.service\n":                                  "a.service",
		"0::/system.slice/a.service/dibs-run-1\n":                       "a.service",
		"2:cpu:/\n1:name=systemd:/system.slice/a.service\n0::/\n":       "a.service",
		"0::/system.slice/system-b.slice/b@one.service\n":               "b@.service",
		"0::/system.slice/other.service\n":                              "",
		"0::/user.slice/user-0.slice/session-3.scope\n":                 "",
		"0::/user.slice/user@0.service/app.slice/a.service/x/y.scope\n": "a.service",
		"": "",
	} {
		if u, ok := Own(root, []byte(cgroup)); u.Name != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", cgroup, u.Name, want)
		}
	}
}

// A stop of the units that come with dibs signals dibs alone, which then drains.
// Holds: promise 15.
func TestShippedUnitsDrain(t *testing.T) {
	files, err := filepath.Glob("../../../../packaging/files/units/*.service")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	host := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		host["usr/lib/systemd/system/"+filepath.Base(file)] = string(text)
	}
	found := Find(write(t, host))
	if len(found) != len(files) {
		t.Errorf("%d of %d units are found: %+v", len(found), len(files), found)
	}
	for _, u := range found {
		if u.KillMode != "mixed" {
			t.Errorf("%s: its KillMode is %s", u.Name, u.KillMode)
		}
	}
}

// script returns a script of the package that acts below a root.
func script(t *testing.T, name, root string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../packaging/files/" + name)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.NewReplacer("/var/lib/dibs", root+"/var", "/etc/dibs", root+"/etc", "/run/systemd/system", root+"/none").Replace(string(text))
	if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(s, root, "ROOT"), " /usr/sbin/nologin", ""), " /usr") {
		t.Fatalf("it names more of the host than this test replaces:\n%s", s)
	}
	return s
}

// A person's account of the name dibs is not given to the services.
func TestAPersonCalledDibsStays(t *testing.T) {
	root := t.TempDir()
	for line, want := range map[string]string{
		"dibs:x:1001:1001:Dibs:/home/dibs:/bin/bash":    "refused",
		"dibs:x:997:997::/var/lib/dibs:/sbin/nologin":   "",
		"dibs:x:20001:997::" + root + "/var:/bin/false": "", // of a directory service
		"": "useradd",
	} {
		bin := t.TempDir()
		for name, text := range map[string]string{"getent": `[ "$1" = passwd ] && [ -n "$LINE" ] && echo "$LINE"`, "groupadd": "", "useradd": "echo useradd"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("sh", "-c", script(t, "preinstall.sh", root))
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "LINE=" + line}
		out, err := cmd.CombinedOutput()
		if (err != nil) != (want == "refused") || want == "useradd" && string(out) != "useradd\n" || want == "" && len(out) > 0 {
			t.Errorf("%q: %v, %s; want %q", line, err, out, want)
		}
	}
}

// The installation changes no directory behind a symbolic link.
func TestPostinstallFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/elsewhere", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", root+"/var"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", script(t, "postinstall.sh", root)).CombinedOutput()
	st, statErr := os.Stat(root + "/elsewhere")
	if err != nil || statErr != nil || st.Mode()&os.ModeSetgid != 0 || !strings.Contains(string(out), "is a symbolic link") {
		t.Errorf("%v %v, mode %v: %s", err, statErr, st.Mode(), out)
	}
	if err := os.Rename(root+"/elsewhere", root+"/dir"); err == nil {
		_ = os.Remove(root + "/var")
		err = os.Rename(root+"/dir", root+"/var")
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err = exec.Command("sh", "-c", script(t, "postinstall.sh", root)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if st, err = os.Stat(root + "/var"); err != nil || st.Mode()&os.ModeSetgid == 0 {
		t.Errorf("%v, mode %v", err, st.Mode())
	}
}

// A purge empties a directory that is a mount point, and succeeds.
func TestAPurgeOfAMountPoint(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/var", 0o700); err != nil {
		t.Fatal(err)
	}
	mounted := "mount -t tmpfs tmpfs " + root + "/var && touch " + root + "/var/.journal && ("
	if out, err := exec.Command("unshare", "-m", "sh", "-c", mounted+"exit 0)").CombinedOutput(); err != nil {
		t.Skipf("NOT COVERED: a purge of a mount point: %v: %s", err, out)
	}
	purge := exec.Command("unshare", "-m", "sh", "-c", mounted+script(t, "postremove.sh", root)+"\n) && ls -A "+root+"/var", "sh", "purge")
	if out, err := purge.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// A purge of the package removes what dibs has written on the host, a removal nothing of it.
func TestAPurgeRemovesTheState(t *testing.T) {
	text, err := os.ReadFile("../../../../packaging/files/postremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	script := strings.NewReplacer("/var/lib/dibs", root+"/var", "/etc/dibs", root+"/etc", "/run/systemd/system", root+"/none").Replace(string(text))
	if strings.Contains(strings.ReplaceAll(script, root, "ROOT"), " /") {
		t.Fatalf("it names more of the host than this test replaces:\n%s", script)
	}
	for _, dir := range []string{"var/spool", "etc/applied/shop", "etc/jobs.d"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		how  string
		left []string
	}{{"remove", []string{"etc/applied/shop", "etc/jobs.d", "var/spool"}}, {"purge", []string{"etc/jobs.d"}}} {
		if out, err := exec.Command("sh", "-c", script, "sh", c.how).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c.how, err, out)
		}
		var left []string
		for _, dir := range []string{"etc/applied/shop", "etc/jobs.d", "var/spool"} {
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				left = append(left, dir)
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s leaves %q, want %q", c.how, left, c.left)
		}
	}
}

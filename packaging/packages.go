package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const description = `scheduled and queued jobs across a fleet of servers
dibs runs scheduled and queued jobs across a fleet of identical servers: each
scheduled run happens on exactly one of them. It coordinates through a
directory, Redis, PostgreSQL, MySQL or MariaDB.`

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dibs
Source: https://github.com/dibs-run/dibs

Files: *
Copyright: the dibs authors
License: Apache-2.0
 On Debian systems, the text of the licence is in /usr/share/common-licenses/Apache-2.0.
`

// packages writes a deb, an rpm and an apk for each architecture of Linux.
func (r *release) packages() error {
	stage, err := os.MkdirTemp("", "dibs-stage-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	for _, arch := range []string{"amd64", "arm64"} {
		for _, format := range []string{"deb", "rpm", "apk"} {
			if err := r.pack(stage, format, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", format, arch, err)
			}
		}
	}
	return nil
}

// scripts are copies with the commit's time, since an apk contains the time of these files.
func (r *release) scripts(stage string) (s nfpm.Scripts, err error) {
	for name, at := range map[string]*string{"preinstall.sh": &s.PreInstall, "postinstall.sh": &s.PostInstall,
		"preremove.sh": &s.PreRemove, "postremove.sh": &s.PostRemove} {
		text, err := os.ReadFile(filepath.Join(r.source, "packaging", "files", name))
		if err != nil {
			return s, err
		}
		*at = filepath.Join(stage, name)
		if err := os.WriteFile(*at, text, 0o644); err != nil {
			return s, err
		}
		if err := os.Chtimes(*at, r.at, r.at); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (r *release) pack(stage, format, arch string) error {
	contents, err := r.contents(stage, r.binary("linux", arch))
	if err != nil {
		return err
	}
	scripts, err := r.scripts(stage)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{Name: "dibs", Arch: arch, Platform: "linux", Version: r.version, Release: "1", Section: "admin", Priority: "optional",
		Maintainer: "The dibs authors <maintainers@dibs.run>", Description: description, Homepage: "https://github.com/dibs-run/dibs", License: "Apache-2.0", MTime: r.at,
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "dibs.run"}, Umask: 0o022,
			Scripts: scripts}})
	if format == "deb" {
		info.Depends = []string{"passwd"}
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}

// contents is what a package holds. What it makes of several texts, it writes to stage first.
func (r *release) contents(stage, binary string) (files.Contents, error) {
	var all files.Contents
	add := func(source, to, kind string, mode os.FileMode, group string) {
		all = append(all, &files.Content{Source: source, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: group, Mode: mode, MTime: r.at}})
	}
	from := func(name string) string { return filepath.Join(r.source, "packaging", "files", name) }
	add(binary, "/usr/bin/dibs", "file", 0o755, "root")
	add(from("units/dibs-serve.service"), "/usr/lib/systemd/system/dibs-serve.service", "file", 0o644, "root")
	add(from("units/dibs-work@.service"), "/usr/lib/systemd/system/dibs-work@.service", "file", 0o644, "root")
	add(from("store"), "/etc/dibs/store", "config|noreplace", 0o640, "dibs")
	add("", "/etc/dibs/jobs.d", "dir", 0o755, "root")
	add("", "/etc/dibs/work", "dir", 0o755, "root")
	// The host's own directory is root's, who shares it with the services. In another user's, root's dibs would refuse
	// to work. postinstall.sh adds the bit that gives what is made there to the group.
	all = append(all, &files.Content{Destination: "/var/lib/dibs", Type: "dir",
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "dibs", Mode: 0o770, MTime: r.at}})
	made, err := r.made()
	if err != nil {
		return nil, err
	}
	for to, text := range made {
		file := filepath.Join(stage, strings.ReplaceAll(to, "/", "_"))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		add(file, to, "file", 0o644, "root")
	}
	return all, nil
}

// made are the texts that are made here, by where they are installed.
func (r *release) made() (map[string][]byte, error) {
	date := r.at.Format("Mon, 02 Jan 2006 15:04:05 -0700")
	changes := fmt.Sprintf("dibs (%s-1) stable; urgency=medium\n\n  * See https://github.com/dibs-run/dibs/blob/main/CHANGELOG.md\n\n"+
		" -- The dibs authors <maintainers@dibs.run>  %s\n", r.version, date)
	made := map[string][]byte{
		"/usr/share/doc/dibs/copyright":                  []byte(copyright),
		"/usr/share/doc/dibs/changelog.Debian.gz":        zipped([]byte(changes)),
		"/usr/share/lintian/overrides/dibs":              []byte("dibs: statically-linked-binary [usr/bin/dibs]\n"),
		"/usr/share/bash-completion/completions/dibs":    r.shells["bash"],
		"/usr/share/zsh/vendor-completions/_dibs":        r.shells["zsh"],
		"/usr/share/fish/vendor_completions.d/dibs.fish": r.shells["fish"],
	}
	pages, err := os.ReadDir(r.manual)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(r.manual, p.Name()))
		if err != nil {
			return nil, err
		}
		made["/usr/share/man/man1/"+p.Name()+".gz"] = zipped(text)
	}
	return made, nil
}

// zipped is text as gzip -9n makes it: without a name and a time.
func zipped(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = z.Write(text)                                  // into memory
	_ = z.Close()
	return b.Bytes()
}

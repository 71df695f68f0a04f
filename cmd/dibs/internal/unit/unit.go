// Package unit reads the units of systemd that run dibs, as far as their files tell: it asks no systemd.
package unit

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/conffile"
)

// A Unit is a service whose command is dibs serve or dibs work.
type Unit struct {
	Name string
	Path string
	// KillMode is whom systemd signals when the service stops.
	KillMode string
	// User is whom it runs as; empty: root.
	User string
}

// Scoped says whether dibs there may ask systemd for scopes, in which a stop does not reach its jobs.
func (u Unit) Scoped() bool { return u.User == "" }

// ControlGroup is the KillMode of a unit that says none: SIGTERM goes to every process of the service, so to the jobs
// as well as to dibs.
const ControlGroup = "control-group"

// folders are where units and their drop-ins are, the most important first.
var folders = []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// Find lists the units below a root directory, which is / but in tests. What cannot be read is left out.
func Find(root string) (all []Unit) {
	seen := map[string]bool{}
	for _, folder := range folders {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.service")) // the pattern is well formed
		for _, file := range files {
			name := filepath.Base(file)
			if seen[name] {
				continue // one that is more important has its name
			}
			seen[name] = true
			if u, ok := read(root, file, name); ok {
				all = append(all, u)
			}
		}
	}
	return all
}

// Own is the unit that a process belongs to, by its /proc/PID/cgroup; false where it is in none that runs dibs.
func Own(root string, cgroup []byte) (Unit, bool) {
	for line := range strings.Lines(string(cgroup)) {
		_, at, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, group, _ := strings.Cut(at, ":")
		for ; strings.Contains(group, ".service"); group = path.Dir(group) {
			name := path.Base(group)
			for _, u := range Find(root) {
				if u.Name == name || u.Name == template(name) {
					return u, true
				}
			}
		}
	}
	return Unit{}, false
}

// template is the unit that an instance is made of: dibs@a.service of dibs@.service.
func template(name string) string {
	before, _, ok := strings.Cut(name, "@")
	if !ok {
		return name
	}
	return before + "@.service"
}

func read(root, file, name string) (u Unit, ok bool) {
	u = Unit{Name: name, Path: file, KillMode: ControlGroup}
	dynamic := false
	for _, f := range append([]string{file}, dropIns(root, name)...) {
		text, err := conffile.Read(f, conffile.Small)
		if err != nil {
			continue
		}
		for key, value := range service(text) {
			switch key {
			case "ExecStart":
				ok = value != "" && (ok || runsDibs(value)) // an empty one takes back those before
			case "KillMode":
				if u.KillMode = value; value == "" {
					u.KillMode = ControlGroup
				}
			case "User":
				if u.User = value; value == "root" || value == "0" {
					u.User = ""
				}
			case "DynamicUser":
				dynamic = truth(value)
			}
		}
	}
	if dynamic && u.User == "" {
		u.User = "a user of its own (DynamicUser=)"
	}
	return u, ok
}

// truth is what systemd takes for true.
func truth(value string) bool {
	switch strings.ToLower(value) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	}
	return false
}

// dropIns are the files that change a unit, in their order: that of their names. Of one name the most important
// counts.
func dropIns(root, name string) (files []string) {
	byName := map[string]string{}
	for _, folder := range slices.Backward(folders) {
		for _, of := range []string{"service", name} {
			found, _ := filepath.Glob(filepath.Join(root, folder, of+".d", "*.conf")) // a name has no pattern: see Find
			for _, f := range found {
				byName[filepath.Base(f)] = f
			}
		}
	}
	for _, f := range byName {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files
}

// joined is a unit's text without comments, and then with each value in one line, as systemd reads it.
func joined(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "#") || strings.HasPrefix(t, ";") {
			continue
		}
		bare := strings.TrimRight(line, "\r\n")
		if backslashes := len(bare) - len(strings.TrimRight(bare, `\`)); backslashes%2 == 1 {
			line = bare[:len(bare)-1] + " "
		}
		b.WriteString(line)
	}
	return b.String()
}

// service are the assignments of the [Service] section, in their order.
func service(text []byte) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		in := false
		for line := range strings.Lines(joined(text)) {
			switch line = strings.TrimSpace(line); {
			case line == "":
			case line[0] == '[':
				in = line == "[Service]"
			case in:
				key, value, _ := strings.Cut(line, "=")
				if !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
					return
				}
			}
		}
	}
}

// runsDibs says whether a command is dibs serve or dibs work, be it behind env or a wrapper.
func runsDibs(command string) bool {
	words := strings.Fields(command)
	for i, w := range words[:max(len(words)-1, 0)] {
		next := strings.Trim(words[i+1], `"'`)
		if path.Base(strings.Trim(w, `-@:+!"'`)) == "dibs" && (next == "serve" || next == "work") {
			return true
		}
	}
	return false
}

// OfSelf is the unit that this process belongs to.
func OfSelf() (Unit, bool) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Unit{}, false
	}
	return Own("/", b)
}

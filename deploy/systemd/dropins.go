package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy/internal/users"
)

// A dropin is a file of systemd's that changes units beside their own files: a drop-in, or a unit of the same name in
// a more important directory.
type dropin struct {
	path string
	// dir is the name of its directory, such as dibs-.service.d; of a unit in place of ours, the unit's.
	dir string
	// keys are what it sets.
	keys []string
}

// folders are the directories of units below the root of a system, and below a user's folders, the most important
// first.
var (
	folders = []string{"etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient", "run/systemd/generator.early",
		"etc/systemd/system", "etc/systemd/system.attached", "run/systemd/system", "run/systemd/system.attached", "run/systemd/generator",
		"usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system", "run/systemd/generator.late"}
	userFolders = []string{"/etc/xdg/systemd/user", "/etc/systemd/user", "/run/systemd/user", "/usr/local/share/systemd/user",
		"/usr/share/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"}
)

// runtimeDir is where the files of the current user's manager are while it runs. Cron, su and the like do not set the
// variable.
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return dir
	}
	return fmt.Sprintf("/run/user/%d", os.Geteuid())
}

// search returns where systemd looks for units, if dir is one of these directories, and only dir otherwise.
func (u *Units) search() (all []string) {
	root, system := strings.CutSuffix(u.dir, SystemDir)
	switch {
	case system:
		for _, f := range folders {
			all = append(all, filepath.Join("/", root, f))
		}
	case u.user:
		run := filepath.Join(runtimeDir(), "systemd")
		data := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(u.dir))), ".local/share/systemd/user")
		all = append(all, u.dir+".control", run+"/user.control", run+"/transient", run+"/generator.early", u.dir, run+"/user", run+"/generator", data)
		all = append(append(all, userFolders...), run+"/generator.late")
	default:
		all = []string{u.dir}
	}
	return all
}

// dropins lists what may change units of dibs. Of two files of one name, the one in the more important directory
// counts.
func (u *Units) dropins() (all []dropin) {
	own := false
	seen := map[string]bool{}
	for _, folder := range u.search() {
		own = own || folder == u.dir
		for _, pattern := range []string{"dibs-*.d/*.conf", "service.d/*.conf", "timer.d/*.conf", "dibs-*" + timerEnd, "dibs-*" + serviceEnd} {
			paths, _ := filepath.Glob(filepath.Join(folder, pattern)) // the pattern is well formed
			for _, path := range paths {
				d := dropin{path: path, dir: filepath.Base(path)}
				if strings.HasSuffix(path, ".conf") {
					d.dir = filepath.Base(filepath.Dir(path))
				} else if own {
					continue // ours, or one that ours replaces
				}
				if name := d.dir + "/" + filepath.Base(path); !seen[name] {
					seen[name] = true
					text, _ := os.ReadFile(path) // what dibs may not read, it cannot judge
					d.keys = keys(string(text))
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// keys are the names that a unit's text sets. systemd leaves out comments before it joins lines, and a line goes on
// behind an odd number of backslashes at its very end.
func keys(text string) (all []string) {
	goesOn := false
	for raw := range strings.Lines(text) {
		line := strings.TrimSpace(raw)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if name, _, is := strings.Cut(line, "="); is && !goesOn {
			all = append(all, strings.TrimSpace(name))
		}
		raw = strings.TrimRight(raw, "\r\n")
		goesOn = (len(raw)-len(strings.TrimRight(raw, `\`)))%2 == 1
	}
	return all
}

// decisive begin the names of what decides whether, when, where and as whom a unit runs what.
var decisive = []string{"Exec", "Condition", "Assert", "Root", "OnCalendar", "OnActive", "OnBoot", "OnStartup", "OnUnit", "OnClock", "OnTimezone", "User", "Group", "DynamicUser", "WorkingDirectory", "Environment", "UnsetEnvironment",
	"Type", "Unit", "Restart", "RuntimeMax", "JobTimeout", "RefuseManualStart", "Randomized", "Persistent", "Conflicts", "Requires", "Requisite", "BindsTo"}

// changes reports whether a drop-in changes what a unit of dibs does. One for all units of a type, which a
// distribution or a container may bring, changes it if it sets what the unit sets too, or what is decisive.
func (d dropin) changes(name, text string) bool {
	end := filepath.Ext(name)
	switch {
	case d.dir == name:
		return true
	case d.dir == end[1:]+".d":
		own := keys(text)
		return slices.ContainsFunc(d.keys, func(key string) bool {
			return slices.Contains(own, key) || slices.ContainsFunc(decisive, func(p string) bool { return strings.HasPrefix(key, p) })
		})
	}
	prefix, is := strings.CutSuffix(d.dir, end+".d")
	return is && len(d.keys) > 0 && (prefix+end == name || strings.HasSuffix(prefix, "-") && strings.HasPrefix(name, prefix))
}

// userless says that this system does not have the user of an entry's service, or that nobody can tell; "" if it has.
func (u *Units) userless(text string) string {
	for line := range strings.Lines(text) {
		name, is := strings.CutPrefix(strings.TrimSpace(line), "User=")
		if !is || u.dir != SystemDir {
			continue
		}
		switch known, err := users.Known(name); {
		case err != nil:
			return fmt.Sprintf("its user %q cannot be looked up: %v: try again when this host's directory service answers", name, err)
		case !known:
			return fmt.Sprintf("there is no user %q here, so systemd starts nothing", name)
		}
	}
	return ""
}

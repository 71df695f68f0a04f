package cgroup

import (
	"os"
	"strings"
)

// Parent returns the directory of this process's own control group, below which those of runs
// are made; "" where there is none. It looks at the mounts, since the place differs.
func Parent() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return locate(string(mounts), string(own))
}

// locate finds the mount of cgroup2 and this process's place in it.
func locate(mountinfo, self string) string {
	own, ok := "", false
	for line := range strings.Lines(self) {
		if rest, found := strings.CutPrefix(line, "0::"); found {
			own, ok = strings.TrimSuffix(rest, "\n"), true
		}
	}
	if !ok || strings.HasPrefix(own, "/..") || strings.HasSuffix(own, " (deleted)") {
		return ""
	}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		// The mount may show a part of the hierarchy only.
		if rel, ok := strings.CutPrefix(own+"/", strings.TrimSuffix(root, "/")+"/"); ok {
			return strings.TrimRight(point+"/"+rel, "/")
		}
	}
	return ""
}

// unescape undoes what the kernel does to blanks in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// MountOf finds the mount of cgroup2 that a path is below by its text, and the rest of the path; ""
// where there is none.
func MountOf(path string) (mount, below string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", ""
	}
	return mountOf(string(mounts), path)
}

func mountOf(mountinfo, path string) (mount, below string) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(point, "/")+"/"); ok && rest != "" && len(point) > len(mount) {
			mount, below = point, rest
		}
	}
	return mount, below
}

package scope

import (
	"os"
	"path"
	"strings"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// A service is the unit of systemd that this process is in.
type service struct {
	name string
	// group is its control group as /proc/PID/cgroup has it, and dir where that is mounted; "" where it is not.
	group, dir string
	// user says that its manager is a user's.
	user bool
}

// own is the service that this process is in; false: it is in none. A shell that somebody opened in a service's
// control group, or a container's process, has no INVOCATION_ID.
func own() (service, bool) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || os.Getenv("INVOCATION_ID") == "" {
		return service{}, false
	}
	return serviceOf(string(b), cgroup.Parent())
}

// Service is the name of the service that this process is in; empty: it is in none.
func Service() string {
	s, _ := own()
	return s.name
}

// serviceOf finds the service in the text of /proc/self/cgroup. dir is where the process's group of cgroup2 is
// mounted.
func serviceOf(text, dir string) (s service, ok bool) {
	for _, group := range groups(text) {
		if !strings.HasSuffix(group, ".service") {
			continue
		}
		s = service{name: path.Base(group), group: group, dir: dir, user: strings.Contains(group, "/user@")}
		if path.Base(dir) != s.name { // the one that is mounted is another hierarchy's
			s.dir = ""
		}
		return s, true
	}
	return service{}, false
}

// groups are those of systemd's hierarchy that a process is in, by the text of its /proc/PID/cgroup: that of
// version 2, and before it systemd's own.
func groups(text string) (found []string) {
	for _, prefix := range []string{"0::", ":name=systemd:"} {
		for line := range strings.Lines(text) {
			if _, group, ok := strings.Cut(strings.TrimSuffix(line, "\n"), prefix); ok && group != "" {
				found = append(found, group)
				break
			}
		}
	}
	return found
}

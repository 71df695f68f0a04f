package cgroup

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// For returns the path of the control group that the run is to have; "" if none can be made. It tries this out once
// per process, since permissions alone do not tell (security modules, read-only mounts, limits). DIBS_CGROUP=off in
// the environment hides control groups.
func For(runID string) string {
	if !Wanted(runID) {
		return ""
	}
	if parent := usableParent(); parent != "" {
		return parent + "/" + Name(runID)
	}
	return ""
}

// Wanted says whether the run is to have a control group, wherever one can be made.
func Wanted(runID string) bool {
	return runID != "" && !strings.ContainsAny(runID, "/\x00\n") && os.Getenv("DIBS_CGROUP") != "off"
}

var usableParent = sync.OnceValue(func() string {
	if parent := Parent(); Usable(parent) {
		return parent
	}
	return ""
})

const (
	writable  = 2 // W_OK
	sysClone3 = 435
)

// Usable makes a group below parent and looks whether a process could be started in it and killed.
func Usable(parent string) bool {
	if parent == "" {
		return false
	}
	probe := parent + "/dibs-probe-" + strconv.Itoa(os.Getpid())
	if syscall.Access(parent+"/cgroup.procs", writable) != nil || !clonesInto() ||
		os.Mkdir(probe, 0o755) != nil {
		return false
	}
	defer func() { _ = Remove(probe) }()
	kind, err := os.ReadFile(probe + "/cgroup.type")
	return err == nil && strings.TrimSpace(string(kind)) == "domain" &&
		syscall.Access(probe+"/cgroup.kill", writable) == nil
}

// clonesInto says whether clone3, by which a process is born into a group, is to be had: some
// sandboxes forbid it. Called without arguments it answers EINVAL if it is. (That it knows of
// groups follows from cgroup.kill, which came later.)
func clonesInto() bool {
	_, _, errno := syscall.RawSyscall(sysClone3, 0, 0, 0)
	return errno == syscall.EINVAL
}

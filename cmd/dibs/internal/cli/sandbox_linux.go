package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/job"
)

// inForce looks whether the kernel keeps what a sandbox says, as far as it shows: in a container, systemd leaves out
// what it may not do there, and starts the service all the same.
func inForce(s job.Sandbox) error {
	if s["NoNewPrivileges"] != nil {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
			return notInForce("NoNewPrivileges")
		}
	}
	if s["ProtectSystem"] != nil && !readOnly("/usr") {
		return notInForce("ProtectSystem")
	}
	for _, path := range s["ReadOnlyPaths"] {
		if path = unprefixed(path); !readOnly(path) {
			return notInForce("ReadOnlyPaths=" + path)
		}
	}
	return nil
}

// readOnly says whether a path cannot be written. One that is not there cannot.
func readOnly(path string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return err == nil && st.Flags&unix.ST_RDONLY != 0 || errors.Is(err, fs.ErrNotExist)
}

func notInForce(what string) error {
	return fmt.Errorf("its unit has the sandbox, and %s is not in force: systemd leaves out what it may not do, as in a container; look into its journal", what)
}

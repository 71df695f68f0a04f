//go:build linux

package file

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/store"
)

// A Directory is what is there at a path.
type Directory struct {
	Path string
	// ID is the installation id, which is the host's (rule H1); empty if there is none yet, or it cannot be read.
	ID string
	// UID owns it, and Mode are its permissions.
	UID  int
	Mode os.FileMode
	// SharedFS names a file system whose locks do not exclude, such as "NFS"; empty on others.
	SharedFS string
}

// Inspect looks at a directory and changes nothing. Its error wraps fs.ErrNotExist if there is none.
func Inspect(path string) (Directory, error) {
	d := Directory{Path: path}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return d, fmt.Errorf("directory %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return d, fmt.Errorf("directory %s: %w", path, err)
	}
	d.UID, d.Mode = int(st.Uid), info.Mode()
	if d.SharedFS, err = checkFS(path); err != nil && !errors.Is(err, errShared) {
		return d, fmt.Errorf("directory %s: %w", path, err)
	}
	// Anybody may own the directory, so its files are opened with care, and may be missing.
	var m hostMeta
	if at, err := beneath.Look(path); err == nil && readJSON(at, hostName, &m) == nil && store.CheckInstallation(m.ID) == nil {
		d.ID = m.ID
	}
	return d, nil
}

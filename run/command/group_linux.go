package command

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/lease"
)

// A group is the control group that a lease record names, once it has turned out to be one. Its methods
// work on the opened directory, so that nobody can put another in its place, and do nothing on nil.
type group struct {
	dir, parent *os.File
	name        string
	// own says that this user made it: only then is it killed and removed.
	own bool
}

// groupOf opens the control group that h names. It is nil where h has none, and where there is none:
// it may have been empty and removed, or this process sees another part of the hierarchy. The path
// is a claim. It is believed if it leads, without symbolic links, from a mount of cgroup2 to a
// directory that the kernel says is a control group, and that is named for this run of this key.
func groupOf(key lease.Key, h lease.Holder) *group {
	name := cgroup.Name(bound(key, h.RunID))
	if h.Cgroup == "" || filepath.Base(h.Cgroup) != name || filepath.Clean(h.Cgroup) != h.Cgroup {
		return nil
	}
	g := &group{name: name}
	mount, below := cgroup.MountOf(h.Cgroup)
	if mount == "" {
		return nil
	}
	if g.parent = openBeneath(mount, filepath.Dir(below)); g.parent == nil {
		return nil
	}
	if g.dir = openBeneath(mount, below); g.dir == nil {
		g.close()
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(int(g.dir.Fd()), &st) != nil {
		g.close()
		return nil
	}
	g.own = int(st.Uid) == os.Geteuid()
	return g
}

// openBeneath opens a directory of cgroup2, or nothing.
func openBeneath(mount, below string) *os.File {
	root, err := unix.Open(mount, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	// A kernel that can kill groups (Linux 5.14) has openat2.
	fd, err := unix.Openat2(root, below, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || int64(fs.Type) != unix.CGROUP2_SUPER_MAGIC {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), mount+"/"+below)
}

// at is the path of an opened directory, whatever its name leads to now.
func at(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// populated reports whether processes live in the group, or that this cannot be known.
func (g *group) populated() bool {
	populated, _, err := cgroup.Populated(at(g.dir))
	return populated || err != nil
}

// kill kills all processes of the group, if it is populated and this user's, and says so.
func (g *group) kill() bool {
	return g != nil && g.own && g.populated() && cgroup.Kill(at(g.dir)) == nil
}

// remove removes the group, which is empty.
func (g *group) remove() {
	if g != nil && g.own {
		_ = cgroup.Remove(at(g.parent) + "/" + g.name)
	}
}

func (g *group) close() {
	if g == nil {
		return
	}
	for _, f := range []*os.File{g.dir, g.parent} {
		if f != nil {
			f.Close()
		}
	}
}

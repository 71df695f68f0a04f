//go:build linux

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors of lock files are plain numbers rather than *os.File: nothing here waits for
// readiness, and an os.File would be offered to the poller at each open, for nothing.

// Bytes that are locked one by one, far behind the end of any lock file: the locks are advisory
// and only ever ask for each other. Nobody else's are there ("dibs", in ASCII), so that they can
// be told from other programs' in /proc/locks.
const (
	heldByte  = 0x64696273   // locked for as long as the flock is: the part of it that can be asked about
	writeByte = heldByte + 1 // locked for the microseconds in which a record is decided upon and written
)

// closeFD lets go of a descriptor. It is never repeated: on Linux it is gone whatever close says.
func closeFD(fd int) { _ = unix.Close(fd) }

// tryFlock takes or changes the flock without waiting, and says whether it could.
func tryFlock(fd, how int) (bool, error) {
	for {
		switch err := unix.Flock(fd, how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// tryLock takes the flock of a lock file, if nobody has its byte either. A command can have unlocked the flock that
// it inherited, as with flock -u; the hold goes on then. fd is any description of the file.
func tryLock(lock, fd int) (bool, error) {
	if ok, err := tryFlock(lock, unix.LOCK_EX); err != nil || !ok {
		return false, err
	}
	held, err := byteHeld(fd, heldByte)
	if err != nil || held {
		_ = unix.Flock(lock, unix.LOCK_UN)
	}
	return err == nil && !held, err
}

// tryByte locks one byte for this open file description, without waiting. A description that can only
// be read takes it as a shared lock.
func tryByte(fd int, how int16, b int64) (bool, error) {
	for {
		lk := unix.Flock_t{Type: how, Start: b, Len: 1}
		switch err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk); err {
		case nil:
			return true, nil
		case unix.EAGAIN, unix.EACCES:
			return false, nil
		case unix.EINTR:
		default:
			return false, os.NewSyscallError("fcntl", err)
		}
	}
}

func unlockByte(fd int, b int64) {
	lk := unix.Flock_t{Type: unix.F_UNLCK, Start: b, Len: 1}
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk)
}

// byteHeld asks whether another open file description holds the byte. It acquires nothing.
func byteHeld(fd int, b int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: b, Len: 1}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk); err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	return lk.Type != unix.F_UNLCK, nil
}

// unlock frees the locks of an open file description at once, for all processes that share it.
func unlock(fd int) {
	unlockByte(fd, heldByte)
	unlockByte(fd, writeByte)
	_ = unix.Flock(fd, unix.LOCK_UN)
}

// mostRecord bounds a lock file and the requests beside it: users who may write to them must not be able to fill the
// memory of others.
const mostRecord = 1 << 20

// preadAll reads a small file whole.
func preadAll(fd int) ([]byte, error) { return readAll(fd, "", mostRecord) }

func readAll(fd int, path string, most int) ([]byte, error) {
	b := make([]byte, 0, 4096)
	for {
		if len(b) > most {
			return b, fmt.Errorf("%s is larger than %d bytes: %w", cmp.Or(path, "the file"), most, errDamaged)
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := unix.Pread(fd, b[len(b):cap(b)], int64(len(b)))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return b, os.NewSyscallError("pread", err)
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
}

// pwriteAll writes b at the start of the file.
func pwriteAll(fd int, b []byte) error {
	for off := 0; off < len(b); {
		n, err := unix.Pwrite(fd, b[off:], int64(off))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("pwrite", err)
		}
		off += n
	}
	return nil
}

// patiently repeats try until it succeeds, for at most d and never beyond ctx. It serves locks
// that are only ever held for microseconds, unless their holder was stopped.
func patiently(ctx context.Context, d time.Duration, try func() (bool, error)) (bool, error) {
	end := time.Now().Add(d)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if ok, err := try(); ok || err != nil {
			return ok, err
		}
		if time.Now().After(end) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(pause):
		}
	}
}

// errNoProc is no matter of the directory, which need not be away.
var errNoProc = errors.New("/proc is not mounted; dibs needs it: mount it")

// bootID names this boot of the machine: instants of CLOCK_BOOTTIME compare within one only.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, fs.ErrNotExist) {
		err = errNoProc
	}
	return strings.TrimSpace(string(b)), err
})

// shared are the file systems that several machines can mount, or that hand locks on to code
// which need not know them: there a lock of this kernel excludes nobody else.
var shared = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB2", unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9P", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x0BD00BD0: "Lustre", 0x01161970: "GFS2",
}

var errShared = errors.New("locks of a shared file system do not exclude")

// checkFS refuses a directory whose locks are not this kernel's own.
func checkFS(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if name, ok := shared[int64(uint32(st.Type))]; ok {
		return name, errShared
	}
	return "", nil
}

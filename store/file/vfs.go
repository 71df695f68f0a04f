//go:build linux

package file

import (
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-run/dibs/internal/beneath"
)

// SQLite opens its files by their paths, and resolves links in the name of the database first. In a
// directory that others may write to that is how somebody leads it elsewhere. So it is given a path that
// begins at the held directory, and a VFS of dibs's own: SQLite's, but that it takes the path as it
// is, whose last name it then opens without following a link, and that it looks at each file first.
//
// Between that look and the opening is a moment in which something else can be put there. So the opening
// itself, also of the -shm file, which SQLite opens past its VFS, waits for nothing and looks once more at what
// it got (openBeneath). What is left is a hard link: a kernel that protects them (fs.protected_hardlinks=1, the
// default of all distributions) allows only links to one's own files.
const vfsName = "dibs"

// databaseNames are those of the database and of the files that SQLite puts beside it.
var databaseNames = []string{databaseName, databaseName + "-wal", databaseName + "-shm", databaseName + "-journal"}

var (
	dibsVFS sqlite3.Tsqlite3_vfs // SQLite keeps a pointer to it for ever
	unixVFS sqlite3.Tsqlite3_vfs
)

// registerVFS makes the VFS known to SQLite. Only connections that ask for it by name use it.
var registerVFS = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
		return errVFS
	}
	name, err := libc.CString(vfsName)
	if err != nil {
		return err
	}
	standard := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if standard == 0 {
		return errVFS
	}
	unixVFS = *(*sqlite3.Tsqlite3_vfs)(pointer(standard))
	dibsVFS = unixVFS
	dibsVFS.FpNext, dibsVFS.FzName = 0, name
	dibsVFS.FxOpen, dibsVFS.FxFullPathname = pointerTo(vfsOpen), pointerTo(vfsFullPathname)
	if err := replaceOpen(tls, standard); err != nil {
		return err
	}
	if rc := sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&dibsVFS)), 0); rc != sqlite3.SQLITE_OK {
		return errVFS
	}
	return nil
})

// heldDirectories begins the path of whatever SQLite opens for dibs: a descriptor of ours, and a name
// (beneath.Dir.At).
const heldDirectories = "/proc/self/fd/"

// sqliteOpen is the open(2) that SQLite had.
var sqliteOpen func(tls *libc.TLS, path uintptr, flags, mode int32) int32

// replaceOpen gives SQLite another open(2). It has one for all its VFSs: files that are not in a directory which dibs
// holds are opened as ever.
func replaceOpen(tls *libc.TLS, standard uintptr) error {
	name, err := libc.CString("open")
	if err != nil {
		return err
	}
	defer libc.Xfree(tls, name)
	get, set := unixVFS.FxGetSystemCall, unixVFS.FxSetSystemCall
	was := (*(*func(tls *libc.TLS, vfs, name uintptr) uintptr)(unsafe.Pointer(&get)))(tls, standard, name)
	if was == 0 {
		return errVFS
	}
	sqliteOpen = *(*func(*libc.TLS, uintptr, int32, int32) int32)(unsafe.Pointer(&was))
	change := *(*func(tls *libc.TLS, vfs, name, to uintptr) int32)(unsafe.Pointer(&set))
	if change(tls, standard, name, pointerTo(openBeneath)) != sqlite3.SQLITE_OK {
		return errVFS
	}
	return nil
}

// openBeneath opens a file of a held directory without waiting and without following a link, and refuses what is no
// regular file. Somebody may have put a FIFO there since it was looked at, and a reader of it would wait for ever.
//
// A regular file is never closed here: this process would lose SQLite's locks, were it the database by another name.
func openBeneath(tls *libc.TLS, path uintptr, flags, mode int32) int32 {
	in, held := strings.CutPrefix(libc.GoString(path), heldDirectories)
	at, name, _ := strings.Cut(in, "/")
	dir, err := strconv.Atoi(at)
	if !held || err != nil || name == "" || strings.Contains(name, "/") {
		return sqliteOpen(tls, path, flags, mode)
	}
	how := int(flags) | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, how, uint32(mode))
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		closeFD(fd)
		err = unix.ENXIO
	}
	if errno, failed := err.(unix.Errno); failed {
		*(*int32)(pointer(libc.X__errno_location(tls))) = int32(errno)
		return -1
	}
	return int32(fd)
}

// vfsFullPathname is xFullPathname: the path as it is.
func vfsFullPathname(_ *libc.TLS, _, path uintptr, size int32, out uintptr) int32 {
	text := libc.GoString(path)
	if len(text) >= int(size) {
		return sqlite3.SQLITE_CANTOPEN
	}
	copy(unsafe.Slice((*byte)(pointer(out)), size), text+"\x00")
	return sqlite3.SQLITE_OK
}

type openFunc = func(tls *libc.TLS, vfs, path, file uintptr, flags int32, flagsOut uintptr) int32

// vfsOpen is xOpen: SQLite's own, for files that are plain ones or not there, and for no journal of several
// databases (a super-journal). One without a name is temporary, and SQLite's to name.
func vfsOpen(tls *libc.TLS, vfs, path, file uintptr, flags int32, flagsOut uintptr) int32 {
	if path != 0 {
		name := libc.GoString(path)
		// The name in a journal may lead anywhere, and to a FIFO, whose opening would wait for ever: anybody who
		// shares the directory can have written the journal. A database in WAL mode has no such journal.
		if flags&sqlite3.SQLITE_OPEN_SUPER_JOURNAL != 0 || !plain(name) || flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0 && !plain(name+"-shm") {
			// SQLite looks at the file's methods also after a failure.
			(*sqlite3.Tsqlite3_file)(pointer(file)).FpMethods = 0
			return sqlite3.SQLITE_CANTOPEN
		}
	}
	open := unixVFS.FxOpen
	return (*(*openFunc)(unsafe.Pointer(&open)))(tls, vfs, path, file, flags, flagsOut)
}

// plain says whether there is a regular file with one name, or nothing.
func plain(path string) bool {
	if !strings.HasPrefix(path, heldDirectories) { // an application's own, which it attached
		return true
	}
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return err == unix.ENOENT || err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink <= 1
}

// pointerTo is a Go function as the translated SQLite calls it. It must not be a closure.
func pointerTo[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// pointer is an address of SQLite's memory, which Go's collector knows nothing of.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// checkDatabase says what is wrong with the database's files, if SQLite would only say that it cannot open them.
func checkDatabase(own *beneath.Dir) error {
	for _, name := range databaseNames {
		st, err := own.Stat(name)
		if err == nil {
			err = own.Check(st, name)
		} else if isGone(err) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

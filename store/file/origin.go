//go:build linux

package file

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A new directory may stand where an earlier one was removed, or moved away, under running work. Its first process
// must know whether any live hold is of a directory that had the same path. The kernel lists the locks of all
// processes in /proc/locks, with the number of the file, but without a path or a process. So each hold also locks a
// few bytes whose positions say where it comes from: they are hashes of the path of its directory, and of what a path
// means to its process.

// Where these bytes begin. Nobody asks for the locks: they are only read in the list.
const (
	worldBytes = 1 << 40 // a mount namespace and a root directory
	pathBytes  = 2 << 40 // a path as it was given, and without symbolic links
)

// An origin is where holds of a directory come from, as this process reaches it.
type origin struct {
	world int64 // 0: unknown
	paths []int64
}

// originOf returns the origin of holds in a directory that exists.
func originOf(root string) origin {
	o := origin{paths: []int64{markByte(pathBytes, root)}}
	if real, err := filepath.EvalSymlinks(root); err == nil && real != root {
		o.paths = append(o.paths, markByte(pathBytes, real))
	}
	var st unix.Stat_t
	if ns, err := os.Readlink("/proc/self/ns/mnt"); err == nil && unix.Stat("/", &st) == nil {
		o.world = markByte(worldBytes, fmt.Sprint(ns, " ", st.Dev, " ", st.Ino))
	}
	return o
}

// markByte is where the lock of a text is.
func markByte(base int64, text string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return base + int64(h.Sum32())
}

// put locks the bytes for the open file description of a hold. A hold of unknown origin counts as one of any
// directory.
func (o origin) put(fd int) {
	for _, b := range append([]int64{o.world}, o.paths...) {
		if b != 0 {
			_, _ = tryByte(fd, unix.F_RDLCK, b)
		}
	}
}

// anyHold says whether a process of this machine may have a hold of a directory with this path, also if its files were
// removed or moved. The kernel lists the locks in every pid namespace.
func (o origin) anyHold() bool {
	// The kernel makes the list piece by piece. A lock that is released meanwhile can hide another one, though hardly
	// twice.
	for range 2 {
		b, err := os.ReadFile("/proc/locks")
		if err != nil || o.among(string(b)) {
			return true
		}
	}
	return false
}

// among says whether a list of the kernel's locks has a hold that may be of a directory with the path of o: any hold
// but those of processes to which paths mean the same, in directories with other paths.
func (o origin) among(locks string) bool {
	files := map[string]*seen{}
	for line := range strings.Lines(locks) {
		file, at, ok := lockOf(line)
		if !ok {
			continue
		}
		if files[file] == nil {
			files[file] = &seen{}
		}
		f := files[file]
		switch {
		case at == heldByte:
			f.held = true
		case at >= pathBytes:
			f.path = true
			f.same = f.same || slices.Contains(o.paths, at)
		case at == o.world:
			f.here = true
		case at >= worldBytes:
			f.away = true
		}
	}
	for _, f := range files {
		elsewhere := f.path && !f.same && f.here && !f.away
		if f.held && !elsewhere {
			return true
		}
	}
	return false
}

// seen is what the list says of one file: whether it is held, whether a path is known and ours, and whether the
// process lives in our world or in another one.
type seen struct{ held, path, same, here, away bool }

// lockOf reads a line of /proc/locks, such as "1: OFDLCK ADVISORY READ -1 fd:00:1234 START END": which file, and the
// first byte.
func lockOf(line string) (file string, at int64, ok bool) {
	f := strings.Fields(line)
	if len(f) < 7 || !strings.Contains(line, " OFDLCK ") {
		return "", 0, false
	}
	at, err := strconv.ParseInt(f[len(f)-2], 10, 64)
	return f[len(f)-3], at, err == nil
}

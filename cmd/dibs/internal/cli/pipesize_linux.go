package cli

import "golang.org/x/sys/unix"

// pipeSize is how many bytes a pipe holds at most.
func pipeSize(fd uintptr) int {
	if s, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
		return s
	}
	return usualPipe
}

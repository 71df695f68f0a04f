package command

import (
	"errors"
	"slices"
	"syscall"
)

// errUnborn means that a guardian ended before it was ready to start anything.
var errUnborn = errors.New("the guardian ended before it was ready; this host may lack memory, or allow no more processes")

// hostFaults are the errors of a start for which the host is to blame: it lacks descriptors, processes or memory, or
// it does not have the program. The same command may start elsewhere, or later. EBADF is what dup3(2) says of a number
// beyond the limit of descriptors.
var hostFaults = []error{syscall.EMFILE, syscall.ENFILE, syscall.EBADF, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOENT, errUnborn}

// HostFault reports whether err, from an attempt to start a command, is the fault of this host and not of the command.
// Nothing of the command was executed then. Errors such as E2BIG and ENOEXEC are the command's own: it would fail
// everywhere.
func HostFault(err error) bool {
	return slices.ContainsFunc(hostFaults, func(of error) bool { return errors.Is(err, of) })
}

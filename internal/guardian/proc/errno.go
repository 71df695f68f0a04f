package proc

import "syscall"

// errNoProcess is what reading an open file of a process gives once the process has ended.
const errNoProcess = syscall.ESRCH

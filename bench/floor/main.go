// Command floor runs a command below a guardian that does nothing but wait: the least that a Go
// program pays for three processes in the groups that `dibs run` uses. It is what `dibs run` is
// measured against.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

const guardian = "floor-guardian"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: floor COMMAND [ARG…]")
		os.Exit(125)
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(127)
	}
	if os.Args[0] == guardian {
		os.Exit(run(path, os.Args[1:], &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}))
	}
	os.Exit(run("/proc/self/exe", append([]string{guardian}, os.Args[1:]...), &syscall.SysProcAttr{Setsid: true}))
}

// run waits for a process and returns its exit status.
func run(path string, argv []string, attr *syscall.SysProcAttr) int {
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 126
	}
	state, err := p.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 125
	}
	if s := state.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal())
	}
	return state.ExitCode()
}

//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A proc is a process as /proc shows it.
type proc struct {
	pid, parent int
	args        []string
}

// is says whether a process has these first arguments.
func (p proc) is(args ...string) bool {
	if len(p.args) < len(args) {
		return false
	}
	for i, a := range args {
		if p.args[i] != a {
			return false
		}
	}
	return true
}

// guards is the run whose guardian this is, "" if it is none; wards is the run whose warden this is. The warden is the
// supervisor's child and the guardian is the warden's.
func (p proc) guards() string { return p.runOf("dibs-guardian") }

func (p proc) wards() string { return p.runOf("dibs-warden") }

func (p proc) runOf(name string) string {
	if len(p.args) > 1 && p.args[0] == name {
		return p.args[1]
	}
	return ""
}

// family is a process and all its descendants, parents first.
func family(root int) []proc {
	children, all := map[int][]proc{}, map[int]proc{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range paths {
		if p, ok := readProc(path); ok {
			children[p.parent], all[p.pid] = append(children[p.parent], p), p
		}
	}
	found := []proc{}
	if p, ok := all[root]; ok {
		found = append(found, p)
	}
	for n := 0; n < len(found); n++ {
		found = append(found, children[found[n].pid]...)
	}
	return found
}

func readProc(path string) (p proc, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return p, false // it ended while we looked
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return p, false
	}
	p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path))) // the pattern has digits only
	p.parent, _ = strconv.Atoi(fields[1])
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	p.args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return p, err == nil
}

// signalAll sends a signal to those that are still there.
func signalAll(s syscall.Signal, procs ...proc) {
	for _, p := range procs {
		_ = syscall.Kill(p.pid, s) // it may have ended
	}
}

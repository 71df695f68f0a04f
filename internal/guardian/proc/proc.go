// Package proc reads what /proc says about processes: which process descends from which, which ones live, and which
// run a process belongs to.
package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// A Stat is what /proc/PID/stat says, as far as it matters here.
type Stat struct {
	PID, Parent, Group, Session int
	State                       byte
	Threads                     int
	Start                       uint64 // clock ticks since boot
	Memory                      uint64 // bytes of address space; 0 of a kernel thread, and of what has all but ended
	Code, Stack                 uint64 // where they begin in it; no code until an exec is complete
	Comm                        string // the name that ps(1) shows
	// Kernel is set for a kernel thread.
	Kernel bool
}

// Alive says whether the process can still do something. A zombie counts as alive while other threads of its process
// are still ending: until they have, its files are open.
func (s Stat) Alive() bool {
	return s.State != 'X' && (s.State != 'Z' || s.Threads > 1)
}

// Read reads one process's Stat; an error that is os.ErrNotExist if there is none.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if gone(err) {
			err = os.ErrNotExist
		}
		return Stat{}, err
	}
	return parse(pid, b)
}

// kernelThread is PF_KTHREAD among the flags of a process.
const kernelThread = 0x00200000

// parse reads the fields after the command's name, which may itself contain blanks and parentheses.
func parse(pid int, b []byte) (Stat, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 26 {
		return Stat{}, errors.New("/proc/" + strconv.Itoa(pid) + "/stat is not understood: " + string(b))
	}
	n := func(i int) int { v, _ := strconv.Atoi(string(f[i])); return v }
	u := func(i int) uint64 { v, _ := strconv.ParseUint(string(f[i]), 10, 64); return v }
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	name := b[bytes.IndexByte(b, '(')+1 : bytes.LastIndexByte(b, ')')]
	return Stat{PID: pid, Comm: string(name), State: f[0][0], Parent: n(1), Group: n(2), Session: n(3),
		Kernel: n(6)&kernelThread != 0, Threads: n(17), Start: start, Memory: u(20), Code: u(23), Stack: u(25)}, err
}

// All reads every process that can be seen. Those that end meanwhile are left out, as are those that
// this user may not read. With an error there may be more than it found.
func All() ([]Stat, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	all := make([]Stat, 0, len(pids))
	for _, pid := range pids {
		s, err := Read(pid)
		switch {
		case err == nil:
			all = append(all, s)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
			return all, err
		}
	}
	return all, nil
}

func pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Below keeps the living processes of all that descend from one for which root is true, or for
// which it is true itself.
func Below(all []Stat, root func(Stat) bool) []Stat {
	children := map[int][]Stat{}
	var todo, found []Stat
	for _, s := range all {
		children[s.Parent] = append(children[s.Parent], s)
		if root(s) {
			todo = append(todo, s)
		}
	}
	seen := map[int]bool{}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s.PID] {
			continue
		}
		seen[s.PID] = true
		todo = append(todo, children[s.PID]...)
		if s.Alive() {
			found = append(found, s)
		}
	}
	return found
}

// Descendants returns the living processes that descend from pid, without pid itself.
func Descendants(pid int) ([]Stat, error) {
	all, err := All()
	return Below(all, func(s Stat) bool { return s.Parent == pid }), err
}

// An Env is the environment that a process was executed with, as /proc/PID/environ has it.
type Env []byte

// errExecuting is Environ's error for a process that is about to become another program.
var errExecuting = errors.New("the process is being executed and has no environment yet")

// Environ reads it. The error is os.ErrNotExist if the process has ended, os.ErrPermission if this user may not know,
// and another one in the middle of an exec, when nobody can know.
func Environ(pid int) (Env, error) {
	before := Stat{}
	for range 10 { // one execution after the other makes it look again
		env, err := environ(pid)
		if err != nil || len(env) > 0 {
			return env, err
		}
		switch s, err := Read(pid); {
		case err != nil:
			return nil, err
		case s.Memory == 0:
			return nil, os.ErrNotExist
		case s.Code == 0:
			return nil, errExecuting
		case s.Start == before.Start && s.Stack == before.Stack: // the program of before the look, and complete
			return nil, nil
		default:
			before = s
		}
	}
	return nil, errExecuting
}

func environ(pid int) (Env, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if gone(err) {
		err = os.ErrNotExist
	}
	return b, err
}

// Has says whether the variable name is set to value.
func (e Env) Has(name, value string) bool {
	for v := range bytes.SplitSeq(e, []byte{0}) {
		if string(v) == name+"="+value {
			return true
		}
	}
	return false
}

// Lists says whether value is one of the words, separated by colons, of the variable name.
func (e Env) Lists(name, value string) bool {
	for v := range bytes.SplitSeq(e, []byte{0}) {
		if words, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return bytes.Contains([]byte(":"+string(words)+":"), []byte(":"+value+":"))
		}
	}
	return false
}

// Args returns the arguments that the process was executed with, nil if it has ended.
func Args(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	var args []string
	for _, a := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		args = append(args, string(a))
	}
	return args
}

func gone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, errNoProcess) }

// Package environ hides secrets of this process's own environment.
package environ

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
)

var hiding sync.Mutex

// Hide overwrites the values of variables in the environment that this process was executed with, which other
// processes of its user can read in /proc/PID/environ. os.Getenv answers as before: Go has a copy. A variable
// that is not there is none to hide. It is safe for concurrent use.
func Hide(names ...string) error {
	hiding.Lock()
	defer hiding.Unlock()
	from, to, err := block()
	if err != nil {
		return fmt.Errorf("hide a secret of the environment: %w", err)
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("hide a secret of the environment: %w", err)
	}
	defer mem.Close()
	env := make([]byte, to-from)
	if _, err := mem.ReadAt(env, from); err != nil {
		return fmt.Errorf("hide a secret of the environment: %w", err)
	}
	for at := 0; at < len(env); {
		end := bytes.IndexByte(env[at:], 0)
		if end < 0 {
			break
		}
		name, value, ok := bytes.Cut(env[at:at+end], []byte("="))
		for _, n := range names {
			if ok && string(name) == n {
				where := from + int64(at+len(name)+1)
				if _, err := mem.WriteAt(bytes.Repeat([]byte("x"), len(value)), where); err != nil {
					return fmt.Errorf("hide a secret of the environment: %w", err)
				}
			}
		}
		at += end + 1
	}
	return nil
}

// block is where the kernel put the environment: env_start and env_end of proc(5).
func block() (from, to int64, err error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from the third field on
	if len(f) < 49 {
		return 0, 0, errors.New("/proc/self/stat is not understood")
	}
	from, err = strconv.ParseInt(string(f[47]), 10, 64)
	if err == nil {
		to, err = strconv.ParseInt(string(f[48]), 10, 64)
	}
	if err == nil && (from <= 0 || to < from || to-from > 64<<20) {
		err = errors.New("/proc/self/stat does not say where the environment is")
	}
	return from, to, err
}

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dibs-run/dibs/lease"
)

// defaultPath is where commands are looked up if the environment has no PATH, as execvp(3) does.
const defaultPath = "/bin:/usr/bin"

// lookUp finds the file to execute. What it cannot tell (a missing interpreter, a wrong format)
// the exec itself will.
func lookUp(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	err := error(syscall.ENOENT)
	for _, in := range filepath.SplitList(getenv(env, "PATH", defaultPath)) {
		if in == "" {
			in = "."
		}
		path := in + "/" + name
		at := path
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		info, statErr := os.Stat(at)
		switch {
		case statErr == nil && !info.IsDir() && info.Mode()&0o111 != 0:
			return path, nil
		case statErr == nil || errors.Is(statErr, fs.ErrPermission):
			err = syscall.EACCES
		}
	}
	return "", err
}

// Find returns nil if a command of this name can be found and executed in this working directory and environment,
// else an error that says why not. It executes nothing.
func Find(name, dir string, env []string) error {
	path, err := lookUp(name, dir, env)
	if err != nil {
		return startError(name, err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return startError(name, syscall.ENOENT)
	case err != nil:
		return startError(name, err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return startError(name, syscall.EACCES)
	}
	return nil
}

// errInterpreter means that the file is there, and what is to read it is not.
type errInterpreter struct{ reason string }

func (e errInterpreter) Error() string { return e.reason }
func (e errInterpreter) Unwrap() error { return syscall.ENOENT }

// missing is an error of an exec: where the file exists, one that says what is missing instead.
func missing(path, dir string, err error) error {
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if info, statErr := os.Stat(path); statErr != nil || !info.Mode().IsRegular() {
		return err
	}
	first := make([]byte, 256)
	if f, openErr := os.Open(path); openErr == nil {
		n, _ := f.Read(first)
		first = first[:n]
		f.Close()
	}
	line, _, _ := bytes.Cut(first, []byte("\n"))
	words := bytes.Fields(bytes.TrimPrefix(line, []byte("#!")))
	switch {
	case !bytes.HasPrefix(line, []byte("#!")) || len(words) == 0:
		return errInterpreter{path + " exists, but the loader that it names does not: it is of another system or libc"}
	case bytes.HasSuffix(line, []byte("\r")):
		return errInterpreter{fmt.Sprintf("%s exists, but the interpreter %q of its first line does not, since the line ends as on Windows (CRLF): save it with line ends of Unix", path, words[0])}
	}
	return errInterpreter{fmt.Sprintf("%s exists, but the interpreter %q of its first line does not", path, words[0])}
}

// getenv finds the last setting of a variable, which is the one that counts.
func getenv(env []string, name, otherwise string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return otherwise
}

// withRun adds to the environment what its processes are found by: the run's id, and the proof of its
// lease. It keeps those of the runs that this one is within.
func withRun(env []string, key lease.Key, runID string) []string {
	outer, parents := getenv(env, EnvRunID, ""), getenv(env, EnvRunParents, "")
	proofs := strings.Trim(getenv(env, EnvRunProofs, "")+":"+bound(key, runID), ":")
	own := make([]string, 0, len(env)+3)
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); name != EnvRunID && name != EnvRunParents && name != EnvRunProofs {
			own = append(own, v)
		}
	}
	if outer != "" && outer != runID {
		parents = strings.Trim(parents+":"+outer, ":")
	}
	if parents != "" {
		own = append(own, EnvRunParents+"="+parents)
	}
	return append(own, EnvRunProofs+"="+proofs, EnvRunID+"="+runID)
}

// startError gives an error of an exec its exit status.
func startError(name string, err error) *StartError {
	status := 126
	switch {
	case errors.Is(err, syscall.ENOENT):
		status = 127
	case HostFault(err), errors.Is(err, syscall.ETIME):
		status = StatusFault
	}
	return &StartError{Status: status, Name: name, Err: err}
}

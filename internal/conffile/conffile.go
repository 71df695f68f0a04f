// Package conffile reads the files that a configuration names: secrets, keys, certificates, manifests, the store's
// address. The configuration may be wrong, or its author may mean harm; reading such a file must cost neither the
// memory nor the time of the process.
package conffile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// Small is the most that a secret, a key, a certificate or an address may have, in bytes.
	Small = 64 << 10
	// Bundle is the most for the certificates of authorities: a system's bundle has over 200 KiB.
	Bundle = 1 << 20
	// System is the most for a file of this host's own authorities, which crypto/x509 reads whatever its size.
	System = 16 << 20
)

// patience is how long a file system may take. One that does not answer (a network's, a user's) keeps a thread.
const patience = 5 * time.Second

// Read reads a regular file of at most most bytes, following links: a Kubernetes secret is one. Anything
// else (a device, a pipe, a directory) is not opened. Errors wrap *fs.PathError, which names the path. It
// returns within 5 s, and is safe for concurrent use.
func Read(path string, most int) ([]byte, error) {
	return within(patience, path, func() ([]byte, error) { return read(path, most) })
}

func within(d time.Duration, path string, read func() ([]byte, error)) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		data, err := read()
		answered <- answer{data, err}
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case a := <-answered:
		return a.data, a.err
	case <-timer.C:
		return nil, refused(path, fmt.Errorf("its file system has not answered for %s", d))
	}
}

// read looks before it opens, since opening a device may do something, and again after, since another
// file may have come. Opening never waits, as it would for a pipe without a writer.
func read(path string, most int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > most:
		return nil, refused(path, fmt.Errorf("%w than %d bytes", ErrLarger, most))
	}
	return data, nil
}

// ErrLarger is wrapped where a file has too many bytes.
var ErrLarger = errors.New("it is larger")

// ErrNotRegular is wrapped where something else than a file is named.
var ErrNotRegular = errors.New("it is not a regular file")

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return refused(path, fmt.Errorf("%w (%s)", ErrNotRegular, kind(info.Mode())))
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return m.Type().String()
}

func refused(path string, err error) error { return &fs.PathError{Op: "read", Path: path, Err: err} }

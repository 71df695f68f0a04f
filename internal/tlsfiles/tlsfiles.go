// Package tlsfiles tells when the files that TLS relies on have been replaced, and reads this host's authorities
// again. Go reads those once in a process: a server that runs for months would never see a new one.
package tlsfiles

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/dibs-run/dibs/internal/conffile"
)

// Stamp describes the state of files and directories, following links: as long as none of them is replaced, changed or
// removed, it stays the same. It reads nothing.
func Stamp(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			b.WriteString("-;")
			continue
		}
		fmt.Fprint(&b, info.Size(), " ", info.ModTime().UnixNano())
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			fmt.Fprint(&b, " ", s.Dev, " ", s.Ino)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// Where authorities are, as crypto/x509 looks for them on Linux: in the first of the files that is there, and in the
// directories.
var (
	usualFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}
	usualDirs = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// places are the files and directories of this process's environment.
func places() (files, dirs []string) {
	files, dirs = usualFiles, usualDirs
	if f := os.Getenv("SSL_CERT_FILE"); f != "" {
		files = []string{f}
	}
	if d := os.Getenv("SSL_CERT_DIR"); d != "" {
		dirs = strings.Split(d, ":")
	}
	return files, dirs
}

// System is this host's authorities. It is safe for concurrent use.
var System authorities

type authorities struct {
	mu           sync.Mutex
	first, stamp string
	pool         *x509.CertPool
}

// Pool returns the authorities if their files have changed since the first call, and the same pool until they change
// again. Nil: they have not, so what crypto/tls uses by default is right. An error names the file.
func (a *authorities) Pool() (*x509.CertPool, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	files, dirs := places()
	stamp := Stamp(append(append([]string{}, files...), dirs...)...)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.first == "":
		a.first, a.stamp = stamp, stamp
		return nil, nil
	case stamp == a.stamp:
		return a.pool, nil
	case stamp == a.first:
		a.stamp, a.pool = stamp, nil
		return nil, nil
	}
	pool, err := read(files, dirs)
	if err == nil {
		a.stamp, a.pool = stamp, pool
	}
	return pool, err
}

// read reads the first of the files that is there, and what is in the directories. A file that the environment names
// must be there. One that is too large is an error: left out, it would be missed by servers that it vouched for.
func read(files, dirs []string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for _, path := range files {
		pem, err := conffile.Read(path, conffile.System)
		switch {
		case errors.Is(err, conffile.ErrLarger):
			return nil, fmt.Errorf("the authorities of this host: %w", err)
		case err != nil && len(files) > 1:
			continue
		case err != nil:
			return nil, fmt.Errorf("SSL_CERT_FILE: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the authorities of this host: %s: there is no certificate in it: want PEM", path)
		}
		break
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // as crypto/x509 does
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); e.Type() == 0 || e.Type() == fs.ModeSymlink {
				pem, err := conffile.Read(path, conffile.System)
				if errors.Is(err, conffile.ErrLarger) {
					return nil, fmt.Errorf("the authorities of this host: %w", err)
				}
				if err == nil {
					pool.AppendCertsFromPEM(pem)
				}
			}
		}
	}
	return pool, nil
}

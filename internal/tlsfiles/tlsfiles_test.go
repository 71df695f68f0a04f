package tlsfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/authority"
)

// The authorities of this host are crypto/tls's own until a file changes, and then the file's; they are read once per
// change.
func TestPool(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	t.Setenv("SSL_CERT_FILE", file)
	t.Setenv("SSL_CERT_DIR", filepath.Join(dir, "none"))
	var a authorities
	first, second := authority.New(t), authority.New(t)
	authority.Replace(t, file, first.PEM)
	for range 2 {
		if p, err := a.Pool(); p != nil || err != nil {
			t.Fatal(p, err)
		}
	}
	authority.Replace(t, file, second.PEM)
	p, err := a.Pool()
	if err != nil || !p.Equal(second.Pool) {
		t.Fatal(p, err)
	}
	if again, err := a.Pool(); again != p || err != nil {
		t.Errorf("it was read again: %v", err)
	}
	authority.Replace(t, file, []byte("nonsense"))
	if _, err := a.Pool(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v; want %s named", err, file)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Pool(); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE: ") || !strings.Contains(err.Error(), file) {
		t.Errorf("%v; want %s named", err, file)
	}
	authority.Replace(t, file, first.PEM)
	if p, err := a.Pool(); err != nil || p == nil || !p.Equal(first.Pool) {
		t.Errorf("a file that is back: %v", err)
	}
}

// A directory's certificates count as well, also one that came later.
func TestPoolOfADirectory(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "ca.pem"), t.TempDir()
	t.Setenv("SSL_CERT_FILE", file)
	t.Setenv("SSL_CERT_DIR", dir)
	var a authorities
	first, second := authority.New(t), authority.New(t)
	authority.Replace(t, file, first.PEM)
	if p, err := a.Pool(); p != nil || err != nil {
		t.Fatal(p, err)
	}
	authority.Replace(t, filepath.Join(dir, "own.pem"), second.PEM)
	both := first.Pool.Clone()
	both.AppendCertsFromPEM(second.PEM)
	if p, err := a.Pool(); err != nil || p == nil || !p.Equal(both) {
		t.Errorf("%v", err)
	}
}

// A host's authorities may be many: crypto/x509 reads a file of any size, and a change of it leaves none of them out
// without a word.
func TestPoolOfALargeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	a := authority.New(t)
	large := func(size int) []byte { return append(bytes.Repeat([]byte("# a comment\n"), size/12+1), a.PEM...) }
	for name, c := range map[string]struct{ files, dirs []string }{
		"usual": {[]string{filepath.Join(dir, "none"), file}, nil}, "named": {[]string{file}, nil}, "directory": {nil, []string{dir}},
	} {
		authority.Replace(t, file, large(2<<20))
		if p, err := read(c.files, c.dirs); err != nil || !p.Equal(a.Pool) {
			t.Errorf("%s, 2 MiB: %v; want its certificate", name, err)
		}
		authority.Replace(t, file, large(16<<20))
		if _, err := read(c.files, c.dirs); err == nil || !strings.Contains(err.Error(), file+": it is larger than") {
			t.Errorf("%s, more than 16 MiB: %v; want %s named", name, err, file)
		}
	}
}

package redis

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/authority"
	"github.com/dibs-run/dibs/internal/test/testserver"
)

// An authority that was replaced in its file is trusted by the next connection of a running process, and the one
// before it is not. An error names the file.
// Holds: H3.
func TestAReplacedAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorities.pem")
	t.Setenv("SSL_CERT_FILE", file)
	first, second := authority.New(t), authority.New(t)
	authority.Replace(t, file, first.PEM)
	plain := config(t, testserver.Redis(t))
	proxy := authority.Start(t, plain.URL.Host, first.Server(false), nil)
	c := config(t, "rediss://"+proxy.Addr+"/0")
	s := open(t, c)
	t.Cleanup(func() { sweep(t, plain) })
	// After some failures the client tries only once a second, and answers with the last error meanwhile.
	comes := func(what, want string) {
		t.Helper()
		waitFor(t, what, func() bool {
			_, err := s.Now(t.Context())
			return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
		})
	}
	comes("the first authority", "")
	proxy.Show(second.Server(false))
	comes("a server of another authority", "unknown authority")
	authority.Replace(t, file, []byte("nonsense"))
	comes("a file without a certificate", file)
	authority.Replace(t, file, second.PEM)
	comes("the second authority", "")
	proxy.Show(first.Server(false))
	comes("the first authority, which is trusted no more", "unknown authority")
}

// A certificate that nobody verifies is a weakness, beyond this host.
func TestSkipVerifyIsAWeakness(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"rediss://db.example/0?skip_verify=true": true, "rediss://127.0.0.1/0?skip_verify=true": false,
		"rediss://db.example/0": false, "redis://db.example/0": false} {
		found := exposed(config(t, address))
		if len(found) > 0 != want || want && (found[0].Breaks || !strings.Contains(found[0].What, "skip_verify")) {
			t.Errorf("%s: %v", address, found)
		}
	}
}

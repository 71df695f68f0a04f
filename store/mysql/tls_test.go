package mysql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/authority"
	"github.com/dibs-run/dibs/internal/test/testserver"
)

// An authority that was replaced in its file is trusted by the next connection of a running process. An error names
// the file.
// Holds: H3.
func TestAReplacedAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorities.pem")
	t.Setenv("SSL_CERT_FILE", file)
	shown, err := os.MkdirTemp("", "dibs-tls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shown) })
	show := func(a *authority.Authority) {
		cert, key := a.Issue()
		for name, text := range map[string][]byte{"ca.pem": a.PEM, "cert.pem": cert, "key.pem": key} {
			if err := os.WriteFile(filepath.Join(shown, name), text, 0o644); err != nil { // the server's account reads them
				t.Fatal(err)
			}
		}
		if err := os.Chmod(shown, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	first, second := authority.New(t), authority.New(t)
	show(first)
	authority.Replace(t, file, first.PEM)
	srv := testserver.StartMariaDB(t, "--ssl-ca="+filepath.Join(shown, "ca.pem"), "--ssl-cert="+filepath.Join(shown, "cert.pem"), "--ssl-key="+filepath.Join(shown, "key.pem"))
	s := mustOpen(t, config(t, srv.URL+"?tls=true"))
	db := raw(t, srv.URL, nil)
	// Connections are made anew once those of before are gone.
	asked := func() (err error) {
		own := count(t, db, "SELECT CONNECTION_ID()")
		rows, err := db.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE id <> ? AND command = 'Sleep'", own)
		if err != nil {
			t.Fatal(err)
		}
		var all []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			all = append(all, id)
		}
		_ = rows.Close()
		for _, id := range all {
			_, _ = db.Exec("KILL ?", id)
		}
		for range 40 {
			if _, err = s.Now(t.Context()); err == nil {
				break
			}
		}
		return err
	}
	db.SetMaxOpenConns(1)
	if err := asked(); err != nil {
		t.Fatal(err)
	}
	show(second)
	exec(t, db, "FLUSH SSL")
	if err := asked(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another authority: %v", err)
	}
	authority.Replace(t, file, []byte("nonsense"))
	if err := asked(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without a certificate: %v", err)
	}
	authority.Replace(t, file, second.PEM)
	if err := asked(); err != nil {
		t.Errorf("once the authority was replaced: %v", err)
	}
}

// A connection that anybody in between can read, or answer, is a weakness beyond this host.
func TestUnverifiedTLSIsAWeakness(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"mysql://u@db.example/app?tls=preferred":                                 "plain text",
		"mysql://u@db.example/app?tls=skip-verify":                               "not verified",
		"mysql://u@db.example/app?tls=true":                                      "",
		"mysql://u@db.example/app?tls=true&allowFallbackToPlaintext=true":        "plain text",
		"mysql://u@db.example/app?tls=skip-verify&allowFallbackToPlaintext=true": "plain text",
		"mysql://u@db.example/app?tls=true&allowFallbackToPlaintext=false":       "",
		"mysql://u@127.0.0.1/app?tls=true&allowFallbackToPlaintext=true":         "",
		"mysql://u@db.example/app?tls=Preferred":                                 "plain text",
		"mysql://u@db.example/app":                                               "",
		"mysql://u@127.0.0.1/app?tls=skip-verify":                                "",
	} {
		found := exposed(config(t, address))
		if len(found) > 0 != (want != "") || want != "" && (found[0].Breaks || !strings.Contains(found[0].What, want)) {
			t.Errorf("%s: %v; want %q", address, found, want)
		}
	}
}

package postgres

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/authority"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/tlsfiles"
	"github.com/dibs-run/dibs/store"
)

// agree is how PostgreSQL begins TLS on a connection.
func agree(c net.Conn) error {
	if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
		return err
	}
	_, err := c.Write([]byte("S"))
	return err
}

// behindTLS is an address of the shared server through a proxy.
func behindTLS(t *testing.T, proxy *authority.Proxy, own, parameters string) store.Config {
	t.Helper()
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = proxy.Addr, parameters
	return config(t, u.String())
}

// Certificates that were replaced in their files are used by the next connection of a running process: the
// authority's, whichever way it is named, and the client's own. An error names the file.
// Holds: H3.
func TestReplacedCertificates(t *testing.T) {
	own := database(t, testserver.Postgres(t))
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("SSL_CERT_FILE", at("host.pem"))
	for mode, parameters := range map[string]string{
		"by a file":      "sslmode=verify-full&sslrootcert=" + at("root.pem") + "&sslcert=" + at("client.pem") + "&sslkey=" + at("client.key"),
		"without a name": "sslmode=verify-ca&sslrootcert=" + at("root.pem") + "&sslcert=" + at("client.pem") + "&sslkey=" + at("client.key"),
		"by the host":    "sslmode=verify-full&sslcert=" + at("client.pem") + "&sslkey=" + at("client.key"),
		"system":         "sslrootcert=system&sslcert=" + at("client.pem") + "&sslkey=" + at("client.key"),
	} {
		t.Run(mode, func(t *testing.T) {
			root := at("root.pem")
			if !strings.Contains(parameters, root) {
				root = at("host.pem")
			}
			replace := func(a *authority.Authority) {
				cert, key := a.Issue()
				authority.Replace(t, root, a.PEM)
				authority.Replace(t, at("client.pem"), cert)
				authority.Replace(t, at("client.key"), key)
			}
			first, second := authority.New(t), authority.New(t)
			replace(first)
			authority.Replace(t, at("host.pem"), first.PEM)
			proxy := authority.Start(t, u.Host, first.Server(true), agree)
			s := open(t, behindTLS(t, proxy, own, parameters))
			asked := func() (err error) {
				for range 20 { // the first ones find out that their connections have ended
					if _, err = s.Now(t.Context()); err == nil {
						break
					}
				}
				return err
			}
			if err := asked(); err != nil {
				t.Fatal(err)
			}
			proxy.Show(second.Server(true))
			if err := asked(); err == nil {
				t.Error("a server of another authority is trusted")
			}
			authority.Replace(t, root, []byte("nonsense"))
			if err := asked(); err == nil || !strings.Contains(err.Error(), root) {
				t.Errorf("a file without a certificate: %v", err)
			}
			replace(second)
			if err := asked(); err != nil {
				t.Errorf("once the files were replaced: %v", err)
			}
		})
	}
}

// A connection that no authority of this host verifies goes on whatever became of their file. One that they verify
// gets the error that names it.
func TestOnlyVerifiedConnectionsNeedTheHostsAuthorities(t *testing.T) {
	for _, name := range []string{"PGSSLMODE", "PGSSLROOTCERT", "PGHOST", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir) // where the client looks for files
	file, own := filepath.Join(dir, "host.pem"), filepath.Join(dir, "own.pem")
	t.Setenv("SSL_CERT_FILE", file)
	authority.Replace(t, own, authority.New(t).PEM)
	for address, verified := range map[string]bool{
		"postgres:///app?host=/run/postgresql&sslmode=verify-full":           false,
		"postgres://u@db.example/app?sslmode=disable":                        false,
		"postgres://u@db.example/app":                                        false,
		"postgres://u@db.example/app?sslmode=require":                        false,
		"postgres://u@db.example/app?sslmode=verify-full&sslrootcert=" + own: false,
		"postgres://u@db.example/app?sslmode=verify-ca&sslrootcert=" + own:   false,
		"postgres://u@db.example/app?sslmode=verify-ca":                      true,
		"postgres://u@db.example/app?sslmode=verify-full":                    true,
		"postgres://u@db.example/app?sslrootcert=system":                     true,
		"postgres://u@127.0.0.1,db.example/app?sslmode=verify-full":          true,
	} {
		authority.Replace(t, file, authority.New(t).PEM)
		c := config(t, address)
		cfg, err := poolConfig(c, new(behind))
		if err != nil {
			t.Fatal(err)
		}
		connect := func() error { return cfg.BeforeConnect(t.Context(), cfg.ConnConfig.Copy()) }
		_, _ = tlsfiles.System.Pool()
		if err := connect(); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		switch err := connect(); {
		case verified && (err == nil || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v; want %s named", address, err, file)
		case !verified && err != nil:
			t.Errorf("%s: %v", address, err)
		}
	}
}

// An error about a file of an address names the file, and no password.
// Holds: H3.
func TestAFileThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	a := authority.New(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	cert, _ := a.Issue()
	_, key := a.Issue()
	authority.Replace(t, at("good.pem"), cert)
	authority.Replace(t, at("other.key"), key)
	authority.Replace(t, at("nonsense"), []byte("x"))
	for parameters, want := range map[string]string{
		"sslmode=verify-full&sslrootcert=" + at("gone.pem"):                                             at("gone.pem"),
		"sslmode=verify-full&sslrootcert=" + at("nonsense"):                                             at("nonsense"),
		"sslmode=require&sslcert=" + at("good.pem") + "&sslkey=" + at("gone.key"):                       at("gone.key"),
		"sslmode=require&sslcert=" + at("nonsense") + "&sslkey=" + at("other.key"):                      at("nonsense"),
		"sslmode=require&sslcert=" + at("good.pem") + "&sslkey=" + at("other.key") + "&sslpassword=xyz": "private key does not match",
	} {
		c := config(t, "postgres://app:hunter2@db.example/app?"+parameters)
		_, err := OpenConfig(t.Context(), c)
		if err = c.Scrub(err); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %s in it", parameters, err, want)
		}
	}
}

// Whoever could read or change what goes to a server beyond this host is told of as a weakness, unless that was
// decided by sslmode=disable.
func TestPlainTextIsAWeakness(t *testing.T) {
	for _, name := range []string{"PGSSLMODE", "PGSSLROOTCERT", "PGHOST", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	services := filepath.Join(t.TempDir(), "services")
	t.Setenv("PGSERVICEFILE", services)
	if err := os.WriteFile(services, []byte("[far]\nhost=db.example\n[decided]\nhost=db.example\nsslmode=disable\n[near]\nhost=localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root.pem")
	authority.Replace(t, root, authority.New(t).PEM)
	for address, want := range map[string]string{
		"postgres://u@db.example/app":                                       "plain text",
		"postgres://u@db.example/app?sslmode=prefer":                        "plain text",
		"postgres://u@db.example/app?sslmode=require":                       "not verified",
		"postgres://u@db.example/app?sslmode=verify-full":                   "",
		"postgres://u@db.example/app?sslmode=verify-ca&sslrootcert=" + root: "",
		"postgres://u@db.example/app?sslmode=require&sslrootcert=" + root:   "",
		"postgres://u@db.example/app?sslmode=disable":                       "",
		"postgres://u@127.0.0.1/app":                                        "",
		"postgres://u@localhost/app?sslmode=require":                        "",
		"postgres:///app?host=/run/postgresql":                              "",
		"postgres://u@127.0.0.1,db.example/app":                             "plain text",
		"postgres://u@127.0.0.1,db.example/app?sslmode=disable":             "",
		"postgres://localhost/app?host=db.example":                          "plain text",
		"postgres://localhost/app?host=db.example&sslmode=require":          "not verified",
		"postgres:///app?service=far":                                       "plain text",
		"postgres:///app?service=decided":                                   "",
		"postgres:///app?service=near":                                      "",
	} {
		c := config(t, address)
		cfg, err := poolConfig(c, new(behind))
		if err != nil {
			t.Fatal(err)
		}
		found := exposed(cfg.ConnConfig)
		if ok := slices.ContainsFunc(found, func(f store.Flaw) bool { return !f.Breaks && strings.Contains(f.What, want) }); ok != (want != "") || want == "" && len(found) > 0 {
			t.Errorf("%s: %v; want %q", address, found, want)
		}
	}
}

// The host may stand in the environment, where the address says none.
func TestPlainTextToAHostOfTheEnvironmentIsAWeakness(t *testing.T) {
	for _, name := range []string{"PGSSLMODE", "PGSSLROOTCERT", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	for host, want := range map[string]bool{"db.example": true, "localhost,db.example": true, "localhost": false, "/run/postgresql": false} {
		t.Setenv("PGHOST", host)
		cfg, err := poolConfig(config(t, "postgres:///app"), new(behind))
		if err != nil {
			t.Fatal(err)
		}
		if found := exposed(cfg.ConnConfig); len(found) > 0 != want || want && !strings.Contains(found[0].What, "plain text") {
			t.Errorf("PGHOST=%s: %v; told: %v", host, found, want)
		}
	}
}

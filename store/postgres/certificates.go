package postgres

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/tlsfiles"
	"github.com/dibs-run/dibs/store"
)

// files are those that the client reads for an address: parameter, variable, and how large it may be.
var files = []struct {
	parameter, variable string
	most                int
}{{"sslrootcert", "PGSSLROOTCERT", conffile.Bundle}, {"sslcert", "PGSSLCERT", conffile.Small}, {"sslkey", "PGSSLKEY", conffile.Small},
	{"passfile", "PGPASSFILE", conffile.Bundle}, {"servicefile", "PGSERVICEFILE", conffile.Bundle}}

// readable checks the files that the client will read for an address. The client reads them without a bound, would
// read a device or a pipe for ever, and does not always name them in its errors. A missing file is left to the client,
// which does not need all of them.
func readable(q url.Values) error {
	for _, f := range files {
		path := cmp.Or(q.Get(f.parameter), os.Getenv(f.variable))
		if path == "" || path == "system" {
			continue
		}
		text, err := conffile.Read(path, f.most)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: %w", f.parameter, err)
		case err == nil && strings.HasPrefix(f.parameter, "ssl"):
			if block, _ := pem.Decode(text); block == nil {
				return fmt.Errorf("%s: %s: it is not PEM", f.parameter, path)
			}
		}
	}
	return nil
}

// certificates are what an address says about TLS, read again when its files have been replaced. They are safe for
// concurrent use.
type certificates struct {
	c     store.Config
	paths []string
	// ofHost says that the address asks for this host's authorities by name (sslrootcert=system).
	ofHost bool

	mu    sync.Mutex
	stamp string
	asks  bool           // what tls and falls say needs this host's authorities
	trust *x509.CertPool // of this host; nil: what crypto/tls uses
	tls   *tls.Config    // nil, as fallbacks: those of the pool's configuration
	falls []*pgconn.FallbackConfig
	fresh bool
}

func certificatesOf(c store.Config) *certificates {
	r := &certificates{c: c, ofHost: cmp.Or(c.URL.Query().Get("sslrootcert"), os.Getenv("PGSSLROOTCERT")) == "system"}
	for _, f := range files {
		if path := cmp.Or(c.URL.Query().Get(f.parameter), os.Getenv(f.variable)); path != "" && strings.HasPrefix(f.parameter, "ssl") {
			r.paths = append(r.paths, path)
		}
	}
	if home, err := os.UserHomeDir(); err == nil { // where the client looks by itself
		for _, name := range []string{"root.crt", "postgresql.crt", "postgresql.key"} {
			r.paths = append(r.paths, filepath.Join(home, ".postgresql", name))
		}
	}
	r.stamp = tlsfiles.Stamp(r.paths...)
	return r
}

// renew gives a new connection what the files say now. What is wrong with this host's authorities matters only to a
// connection that is verified by them.
func (r *certificates) renew(cc *pgx.ConnConfig) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var read *pgxpool.Config
	stamp, asks, trust := tlsfiles.Stamp(r.paths...), r.asks, r.trust
	if stamp != r.stamp {
		if read, err = parse(r.c); err != nil {
			return err
		}
		asks = r.byHost(read.ConnConfig)
	} else if !r.fresh {
		asks = r.byHost(cc)
	}
	if asks {
		if trust, err = tlsfiles.System.Pool(); err != nil {
			return err
		}
	}
	if read == nil && trust != r.trust { // connections may be using the ones there are
		if read, err = parse(r.c); err != nil {
			return err
		}
	}
	if read != nil {
		r.tls, r.falls, r.fresh = read.ConnConfig.TLSConfig, read.ConnConfig.Fallbacks, true
		for _, t := range settingsOf(read.ConnConfig) {
			if t != nil && (t.RootCAs == nil || trust != nil && r.ofHost) {
				t.RootCAs = trust
			}
		}
		r.stamp, r.asks, r.trust = stamp, asks, trust
	}
	if r.fresh {
		cc.TLSConfig, cc.Fallbacks = r.tls, r.falls
	}
	return nil
}

// byHost says whether a server is verified by this host's authorities, in one of the ways in which it is tried.
func (r *certificates) byHost(cc *pgx.ConnConfig) bool {
	return slices.ContainsFunc(settingsOf(cc), func(t *tls.Config) bool {
		return t != nil && (t.RootCAs == nil || r.ofHost) && (!t.InsecureSkipVerify || t.VerifyPeerCertificate != nil)
	})
}

// parse reads an address, and the files that it names.
func parse(c store.Config) (*pgxpool.Config, error) {
	if err := readable(c.URL.Query()); err != nil {
		return nil, fmt.Errorf("postgres store %s: %w", c, err)
	}
	cfg, err := pgxpool.ParseConfig(c.URL.String())
	if err != nil {
		return nil, fmt.Errorf("postgres store %s: the address is not valid: %w", c, withoutAddress(err))
	}
	return cfg, nil
}

// settingsOf are the ways in which a connection is tried, each host's in its order; nil is plain text.
func settingsOf(cc *pgx.ConnConfig) []*tls.Config {
	all := []*tls.Config{cc.TLSConfig}
	for _, f := range cc.Fallbacks {
		all = append(all, f.TLSConfig)
	}
	return all
}

// exposed is what is wrong with how servers beyond this host are reached. Which ones these are, only the client knows:
// they may stand in the environment or in a service file. sslmode=disable, which leaves no way with TLS, is somebody's
// decision; nobody decided about an address without sslmode.
func exposed(cc *pgx.ConnConfig) []store.Flaw {
	const cure = "Write sslmode=verify-full in the address; sslrootcert, or SSL_CERT_FILE, names an authority of your own."
	var plain, encrypted, unverified bool
	look := func(host string, t *tls.Config) {
		switch {
		case store.Local(host):
		case t == nil:
			plain = true
		default:
			encrypted = true
			unverified = unverified || t.InsecureSkipVerify && t.VerifyPeerCertificate == nil
		}
	}
	look(cc.Host, cc.TLSConfig)
	for _, f := range cc.Fallbacks {
		look(f.Host, f.TLSConfig)
	}
	switch {
	case plain && encrypted:
		return []store.Flaw{{What: "The connection falls back to plain text whenever somebody between this host and the server wants it: the address has no sslmode that demands TLS.", Cure: cure}}
	case unverified:
		return []store.Flaw{{What: "Anybody between this host and the server can pose as the server: its certificate is not verified (sslmode=require without sslrootcert).", Cure: cure}}
	}
	return nil
}

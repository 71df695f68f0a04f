package store

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// Config is the parsed address of a store. The parameters that dibs knows are taken out of URL; the rest belongs to
// the technology's own client.
type Config struct {
	URL *url.URL
	// Namespace separates users of one store (?namespace=). Default DefaultNamespace.
	Namespace string
	// TTL is the fleet's lease TTL (?ttl=). Zero, the default, means the namespace's, which is 15 s unless set
	// otherwise (Properties.MaxTTL). A TTL above 15 s that differs from the namespace's is refused (CheckTTL).
	TTL time.Duration
	// SeenTTL is the longest TTL that this host has ever seen in the namespace; zero: none. A store that knows a
	// shorter one has lost its data: it then uses this one, and holds grants back for that long (rule L9).
	SeenTTL time.Duration
	// Session asks for the store's session lock in addition to the lease row (?lock=session, rule L11).
	Session bool
	// FleetReach states that a loopback address does reach the whole fleet (?reach=fleet, rule H2).
	FleetReach bool
	// OnlyHost states, for a store that reaches one host, that there is no other host (?reach=only-host): global
	// jobs can then use it as well (promise 12).
	OnlyHost bool
	// Expect pins the store's installation id (?expect_store=); another one is refused.
	Expect string
	// Init states that an empty store is new, so that no hold-back is needed, and upgrades an older schema (`dibs
	// init`).
	Init bool
	// Read states that the store is only read, or only looked for. Opening it then creates no schema, no namespace
	// and no directory, and upgrades none, whatever Init says. If it is not prepared, the error wraps
	// ErrNotPrepared; if an older dibs prepared it, the error wraps ErrOutdated, unless this program can read it.
	Read bool
}

// DefaultNamespace is the namespace of an address that names none.
const DefaultNamespace = "dibs"

// Parse reads a store's address: a URL, or the path of a directory. An error about an address that cannot be parsed
// quotes nothing of it: there may be a password anywhere in it.
func Parse(s string) (Config, error) {
	c := Config{Namespace: DefaultNamespace}
	u, err := parseURL(s)
	if err != nil {
		return c, fmt.Errorf("store address: %w", err)
	}
	c.URL = u
	q := u.Query()
	take := func(name string, set func(string) error) {
		if v, ok := q[name]; ok && err == nil {
			if err = set(v[0]); err != nil {
				err = fmt.Errorf("store address %s: parameter %s=%q: %w", Redact(u), name, v[0], err)
			}
		}
		q.Del(name)
	}
	take("namespace", func(v string) error {
		c.Namespace = v
		return CheckNamespace(v)
	})
	take("ttl", func(v string) (err error) {
		if c.TTL, err = time.ParseDuration(v); err == nil {
			err = lease.MarginFor(c.TTL).Check()
		}
		return err
	})
	take("lock", func(v string) error {
		if c.Session = v == "session"; !c.Session && v != "lease" {
			return fmt.Errorf("want lease or session")
		}
		return nil
	})
	take("reach", func(v string) error {
		return c.setReach(v)
	})
	take("expect_store", func(v string) error { c.Expect = v; return nil })
	u.RawQuery = q.Encode()
	return c, err
}

// setReach sets what the address states about the store's reach, if that is possible for this store.
func (c *Config) setReach(v string) error {
	host := c.URL.Scheme == "file" || c.URL.Scheme == "memory"
	switch {
	case v == "fleet" && host:
		return fmt.Errorf("it reaches this host only; if there is no other host, use only-host")
	case v == "only-host" && !host:
		return fmt.Errorf("only-host is for a directory; for a server whose address every host resolves to itself, use fleet if it reaches the whole fleet")
	case v != "fleet" && v != "only-host":
		return fmt.Errorf("want fleet, or for a directory only-host")
	}
	c.FleetReach, c.OnlyHost = v == "fleet", v == "only-host"
	return nil
}

// Longest returns the longest TTL of a namespace that is created for c.
func (c Config) Longest() time.Duration { return max(lease.DefaultTTL, c.TTL, c.SeenTTL) }

// CheckTTL refuses to use a namespace whose longest TTL is maxTTL with a different TTL (rule L9). After a loss of
// the store's data, the first process that opens it decides how long grants are held back. If one configuration said
// 15 s and another 60 s, that could be too short for a lease that is still live. TTLs up to 15 s are treated alike.
func (c Config) CheckTTL(maxTTL time.Duration) error {
	if c.Init || c.TTL == 0 || max(lease.DefaultTTL, c.TTL) == maxTTL {
		return nil
	}
	cure := fmt.Sprintf("leave ttl out of this address, or make it ttl=%s", maxTTL)
	if c.TTL > maxTTL {
		cure += fmt.Sprintf(", or raise it for the whole fleet: `dibs init` with ttl=%s in the address", c.TTL)
	}
	return fmt.Errorf("the ttl of namespace %s is %s, and here it is %s; everyone who uses a namespace must use the same ttl: %s",
		c.Namespace, maxTTL, c.TTL, cure)
}

// String returns the address without its password.
func (c Config) String() string { return Redact(c.URL) }

// Secret reports whether the address holds a password, or something that may be one.
func (c Config) Secret() bool { return strings.Contains(c.String(), hidden) }

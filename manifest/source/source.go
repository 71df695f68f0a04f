// Package source reads a manifest from its place: a file, a directory of files, standard input, or an application
// that serves it (the manifest endpoint of the cron-manifest protocol, version 1).
package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/manifest"
)

// Options configure how a source is read. The zero value reads files and directories.
type Options struct {
	// Stdin is what the source "-" reads, once.
	Stdin io.Reader
	// Secrets returns the secrets for a request for a manifest, when it is sent: the first one signs it. Without it,
	// an address is not asked.
	Secrets func() ([][]byte, error)
	// Grants are what an application may name in its manifest. The zero value allows only its own origin.
	Grants Grants
	// AllowHTTP allows http:// to another host than this one.
	AllowHTTP bool
	// Client sends the request; its redirects are not followed. Default: one that reuses no
	// connection and takes proxies from the environment.
	Client *http.Client
}

// A Source is one place of a manifest. It is not for concurrent use.
type Source struct {
	name string
	read func(context.Context) ([]manifest.Document, error)
	kind kind
	// origin and grants are an application's.
	origin *url.URL
	grants *Grants
}

type kind uint8

const (
	onDisk kind = iota
	standardInput
	address
)

// New reads nothing yet: it parses the name. "-" is standard input, http:// and https:// an application, anything
// else the path of a file or a directory.
func New(name string, o Options) (*Source, error) {
	s := &Source{name: name}
	switch {
	case name == "":
		return nil, errors.New("manifest: want a file, a directory, - for standard input, or an https address")
	case name == "-":
		s.kind, s.name = standardInput, "standard input"
		s.read = once(o.Stdin)
	case IsAddress(name):
		e, err := newEndpoint(name, o)
		if err != nil {
			return nil, err
		}
		s.kind, s.name, s.read = address, e.url.String(), e.read
		s.origin, s.grants = e.url, &o.Grants
		s.grants.Origin = strings.ToLower(e.url.Scheme + "://" + e.url.Host)
	default:
		s.read = func(context.Context) ([]manifest.Document, error) { return readPath(name) }
	}
	return s, nil
}

// IsAddress reports whether a name is the address of an application's endpoint.
func IsAddress(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

// String returns the source's name for people: the path, the address, or "standard input".
func (s *Source) String() string { return s.name }

// Watchable reports whether Fingerprint may be called repeatedly: for files and directories, but not for standard
// input, nor for an application, which is asked only on request.
func (s *Source) Watchable() bool {
	if s.kind != onDisk {
		return false
	}
	info, err := os.Stat(s.name)
	return err == nil && (info.Mode().IsRegular() || info.IsDir())
}

// Load reads the manifest. An error names the source; an invalid manifest's wraps manifest.Errors.
func (s *Source) Load(ctx context.Context) (*manifest.Manifest, error) {
	documents, err := s.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", s, err)
	}
	m, err := manifest.LoadAll(documents, s.name)
	if err != nil || s.grants == nil {
		return m, err
	}
	if err := s.grants.check(s.origin, m); err != nil {
		return nil, fmt.Errorf("manifest %s uses something that the application was not granted:\n%w", s, err)
	}
	if len(s.grants.Apps) == 0 {
		for i := range m.Jobs {
			m.Jobs[i].Source = identity(s.origin)
		}
	}
	return m, nil
}

// identity returns how a store knows an application that chose its app by itself: its address without the query,
// which names nobody and may contain a secret.
func identity(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if port := u.Port(); port != "" && port == portOf(&url.URL{Scheme: u.Scheme}) {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return strings.ToLower(u.Scheme) + "://" + host + u.EscapedPath()
}

// Grants returns what the application was granted; nil if the manifest is the operator's own, which may name
// whatever the server can reach and read.
func (s *Source) Grants() *Grants { return s.grants }

// Fingerprint returns another value when what is there has changed: a file's content, the names and contents of a
// directory's files, or the reason why they cannot be read.
func (s *Source) Fingerprint() [sha256.Size]byte {
	h := sha256.New()
	documents, err := s.read(context.Background())
	if err != nil {
		fmt.Fprintf(h, "error %v", err)
	}
	for _, d := range documents {
		fmt.Fprintf(h, "%q %d ", d.Name, len(d.Data))
		h.Write(d.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// once reads a stream, which cannot be read again.
func once(r io.Reader) func(context.Context) ([]manifest.Document, error) {
	var mu sync.Mutex
	return func(ctx context.Context) ([]manifest.Document, error) {
		mu.Lock()
		from := r
		r = nil
		mu.Unlock()
		if from == nil {
			return nil, errors.New("it cannot be read again: use a file, to be able to reload it")
		}
		type answer struct {
			data []byte
			err  error
		}
		read := make(chan answer, 1)
		go func() {
			data, err := bounded(from)
			read <- answer{data, err}
		}()
		select {
		case a := <-read:
			return []manifest.Document{{Name: "standard input", Data: a.data}}, a.err
		case <-ctx.Done(): // its writer may never end
			return nil, context.Cause(ctx)
		}
	}
}

// mostRead is one byte more than a manifest may have, so that the manifest's reader refuses a larger one.
const mostRead = manifest.MaxSize + 1

func bounded(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, mostRead)) }

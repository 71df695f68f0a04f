// Package manifest reads the file in which an application declares its jobs, as JSON or as YAML:
// format, defaults and validation, giving job specs.
//
// Version 1 is the public cron-manifest protocol. A manifest that uses nothing else means exactly
// what that protocol says; what dibs adds are optional fields: defaults, command, dir, env, hooks
// and further fields of a policy.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/job"
)

// Version is the one that this package reads and writes.
const Version = 1

// MaxSize is that of the largest document, in bytes.
const MaxSize = 4 << 20

// A Manifest is a valid one, with every default filled in.
type Manifest struct {
	App string
	// Jobs are in the document's order.
	Jobs []job.Spec
}

// LoadFile reads a file; see Load.
func LoadFile(path string) (*Manifest, error) {
	data, err := conffile.Read(path, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return Load(data, path)
}

// Load reads a document. Its name is used in errors, and its ending tells the format: .json,
// .yaml or .yml; without one of these a document that begins with a brace is JSON. An invalid
// manifest's error wraps Errors, which lists everything that is wrong with it.
func Load(data []byte, name string) (*Manifest, error) {
	m, errs := load(data, name)
	if len(errs) > 0 {
		errs.sort()
		return nil, fmt.Errorf("manifest %s is not valid:\n%w", name, errs)
	}
	return m, nil
}

func load(data []byte, name string) (*Manifest, Errors) {
	m, _, errs := read(data, name)
	return m, errs
}

// read answers, beside the manifest, where the app and the names of jobs stand, by path. The
// manifest is as much as could be read; nil is nothing.
func read(data []byte, name string) (*Manifest, map[string]position, Errors) {
	root, err := parse(data, name)
	if err != nil {
		var e Error
		if !errors.As(err, &e) {
			e = Error{Message: err.Error()}
		}
		return nil, nil, Errors{e}
	}
	r := newReader()
	m := r.manifest(root)
	if len(r.errs) == 0 && m.tooLarge() {
		r.add(root.at.errorf("", "with inherited values and every default written out it is larger than %d bytes: split it", MaxSize))
	}
	return m, r.places, r.errs
}

// tooLarge says whether the canonical form could not be read again.
func (m *Manifest) tooLarge() bool {
	size := 0
	for i := range m.Jobs {
		size += hooksSize(m.Jobs[i].Hooks)
		if t := m.Jobs[i].Task; t != nil {
			size += len(t.Args)
		}
		if r := m.Jobs[i].Request; r != nil {
			size += len(r.Body)
			for name, value := range r.Headers {
				size += len(name) + len(value)
			}
		}
	}
	// The sum comes first: it bounds what the canonical form can become.
	return size > MaxSize || len(m.Canonical()) > MaxSize
}

func parse(data []byte, name string) (*node, error) {
	switch {
	case len(data) > MaxSize:
		return nil, fmt.Errorf("it is larger than %d bytes: split it", MaxSize)
	case !utf8.Valid(data):
		return nil, errors.New("it is not valid UTF-8: save it as UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if isJSON(data, name) {
		return parseJSON(data)
	}
	return parseYAML(data)
}

func isJSON(data []byte, name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}

// Package manifest reads the file in which an application declares its jobs, as JSON or as YAML, and returns their
// specs.
//
//	m, err := manifest.LoadFile("jobs.yaml")
//	var wrong manifest.Errors
//	if errors.As(err, &wrong) { … } // all that is wrong, with paths and lines
//	for _, spec := range m.Jobs { … }
//
// [Load] reads bytes, [LoadAll] several documents as one manifest. A [Manifest] has every default filled in.
// [Manifest.Canonical] is its one spelling, byte for byte, and [Schema] the JSON Schema for editors. Package
// manifest/source reads a manifest from files, directories and applications; manifest/app is the application's side.
//
// Version 1 is the public cron-manifest protocol. A manifest that uses nothing else means exactly what that protocol
// says. dibs adds optional fields: defaults, command, dir, env, hooks and further fields of a policy.
//
// # For maintainers
//
// description.go describes the whole format once. The validation and the JSON Schema are both made from it, so they
// cannot differ. JSON and YAML become the same nodes (node.go) before anything is checked.
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

// Version is the version that this package reads and writes.
const Version = 1

// MaxSize is the maximum size of a document, in bytes.
const MaxSize = 4 << 20

// A Manifest is a valid manifest, with every default filled in.
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

// Load reads a document. Errors use its name, and its ending selects the format: .json, .yaml or .yml. Without such
// an ending, a document that begins with a brace is JSON, and any other is YAML. The error of an invalid manifest
// wraps Errors, which lists everything that is wrong with it.
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

// read returns, beside the manifest, the places of the app and of the names of jobs, by path. The manifest is as much
// as could be read; nil is nothing.
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

// tooLarge reports whether the canonical form could not be read again.
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

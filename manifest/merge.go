package manifest

import (
	"fmt"
	"strings"
)

// A Document is one file of a manifest. Its name is used in errors and tells the format, as
// for Load.
type Document struct {
	Name string
	Data []byte
}

// LoadAll reads several documents as one manifest, with the jobs in the documents' order. All documents have the same
// version and app. The names of jobs are unique across them. The limits of version 1, such as the number of jobs, and
// MaxSize are those of the whole. The defaults of a document are for its own jobs only. name is the name of the
// whole, for errors.
//
// The error of an invalid manifest wraps Errors, of all the documents in their order. If there are several documents,
// each Error has its File.
func LoadAll(documents []Document, name string) (*Manifest, error) {
	if len(documents) == 1 {
		return Load(documents[0].Data, documents[0].Name)
	}
	m, errs := merge(documents)
	if len(errs) > 0 {
		return nil, fmt.Errorf("manifest %s is not valid:\n%w", name, errs)
	}
	return m, nil
}

func merge(documents []Document) (*Manifest, Errors) {
	size := 0
	for _, d := range documents {
		size += len(d.Data)
	}
	switch {
	case len(documents) == 0:
		return nil, Errors{{Message: "there is no document: want one at least"}}
	case size > MaxSize:
		return nil, Errors{{Message: fmt.Sprintf("together the documents are larger than %d bytes: split them over several directories", MaxSize)}}
	}
	g := merger{names: map[string]string{}}
	for _, d := range documents {
		g.add(d)
	}
	if len(g.whole.Jobs) > maxJobs {
		g.errs = append(g.errs, Error{Path: "jobs", Message: fmt.Sprintf("together the documents have %d jobs: want 1 to %d", len(g.whole.Jobs), maxJobs)})
	} else if len(g.errs) == 0 && g.whole.tooLarge() {
		g.errs = append(g.errs, Error{Message: fmt.Sprintf("with every default written out the documents are together larger than %d bytes", MaxSize)})
	}
	return &g.whole, g.errs
}

// merger collects documents into a whole.
type merger struct {
	whole Manifest
	errs  Errors
	// from is the document that said the app first, and names are the places of jobs by name.
	from  string
	names map[string]string
}

// add takes over a document's jobs. Errors between documents are also reported for documents with errors of their
// own, if enough can be read.
func (g *merger) add(d Document) {
	m, places, errs := read(d.Data, d.Name)
	if m != nil {
		errs = append(errs, g.conflicts(m, places, d.Name)...)
		g.whole.Jobs = append(g.whole.Jobs, m.Jobs...)
	}
	errs.sort()
	for _, e := range errs {
		e.File = d.Name
		g.errs = append(g.errs, e)
	}
}

func (g *merger) conflicts(m *Manifest, places map[string]position, file string) (errs Errors) {
	switch {
	case m.App == "":
	case g.whole.App == "":
		g.whole.App, g.from = m.App, file
	case m.App != g.whole.App:
		errs = append(errs, places["app"].errorf("app", "%q, but %q in %s: want the same app in all files", m.App, g.whole.App, g.from))
	}
	for i := range m.Jobs {
		name := m.Jobs[i].Name
		path := join(fmt.Sprintf("jobs/%d", i), "name")
		if first, twice := g.names[name]; twice && !strings.HasPrefix(first, file+": ") {
			errs = append(errs, places[path].errorf(path, "%q is also the name of %s: names are unique across files", name, first))
		} else if name != "" && !twice {
			g.names[name] = fmt.Sprintf("%s: jobs/%d", file, i)
		}
	}
	return errs
}

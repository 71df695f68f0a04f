package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostNames is how many top-level names a package for programs or for authors of stores exports: types, functions,
// constants and variables, without methods and fields. What has more is two packages, for two kinds of readers.
var mostNames = map[string]int{"": 40, "queue": 64, "task": 64, "queue/driver": 64, "lease": 64, "tick": 64, "serve": 40, "dibstest": 40}

// TestPackagesExportFewNames prints the counts with -v.
func TestPackagesExportFewNames(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(mostNames)) {
		names, most := exported(t, name), mostNames[name]
		t.Logf("%-17s %3d of %d", "dibs/"+name, len(names), most)
		if len(names) == 0 || len(names) > most {
			t.Errorf("package dibs/%s exports %d names, want 1 to %d: %s", name, len(names), most, strings.Join(names, " "))
		}
	}
}

// exported are the exported top-level names of a package, on whatever system, sorted.
func exported(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, id := range declared(d) {
				if id.IsExported() {
					names = append(names, id.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// declared are the names that a top-level declaration makes; a method makes none.
func declared(d ast.Decl) (ids []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			ids = append(ids, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				ids = append(ids, s.Name)
			case *ast.ValueSpec:
				ids = append(ids, s.Names...)
			}
		}
	}
	return ids
}

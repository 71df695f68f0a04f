package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The ways in for a Go program are small: each of them can be read at one sitting.
func TestTheWaysInAreSmall(t *testing.T) {
	const most = 40
	for _, dir := range []string{"", "serve", "dibstest"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		var all []string
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, exported(f)...)
		}
		if slices.Sort(all); len(all) == 0 || len(all) > most {
			t.Errorf("package %q exports %d names, want %d at most: %s", dir, len(all), most, strings.Join(all, " "))
		}
	}
}

// exported are the exported names that a file declares, but for methods and fields.
func exported(f *ast.File) (names []string) {
	add := func(n *ast.Ident) {
		if n.IsExported() {
			names = append(names, n.Name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						add(n)
					}
				}
			}
		}
	}
	return names
}

package file

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations are the versions of the database's schema, in the order of their names. The first process that opens the
// database applies them. Each records its version, and the oldest version whose programs may still use the database
// after it (store.Layout).
var Migrations fs.FS = must(fs.Sub(files, "migrations"))

func must(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return f
}

package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/manifest"
)

// maxFiles bounds a directory, as MaxSize bounds what stands in its files.
const maxFiles = 1024

var endings = []string{".json", ".yaml", ".yml"}

func readPath(path string) ([]manifest.Document, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, bare(err)
	case info.IsDir():
		return readDir(path)
	}
	data, err := conffile.Read(path, manifest.MaxSize)
	switch {
	case errors.Is(err, conffile.ErrNotRegular):
		return nil, fmt.Errorf("%w: name a file or a directory, or pipe the manifest in and name it -", bare(err))
	case err != nil:
		return nil, bare(err)
	}
	return []manifest.Document{{Name: path, Data: data}}, nil
}

// readDir reads a directory's *.json, *.yaml and *.yml, in the order of their names. Like a shell, it leaves out
// names that begin with a dot: editors and deployments put unfinished files there. It does not search
// subdirectories.
func readDir(path string) (documents []manifest.Document, err error) {
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, bare(err)
	}
	size := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains(endings, strings.ToLower(filepath.Ext(e.Name()))) {
			continue
		}
		file := filepath.Join(path, e.Name())
		if len(documents) == maxFiles || size > manifest.MaxSize {
			return nil, fmt.Errorf("it has more than %d files, or more than %d bytes in them: split it", maxFiles, manifest.MaxSize)
		}
		data, err := conffile.Read(file, manifest.MaxSize)
		switch {
		case errors.Is(err, conffile.ErrNotRegular):
			return nil, fmt.Errorf("%s is no file: rename it, or move it elsewhere", file)
		case err != nil:
			return nil, err
		}
		size += len(data)
		documents = append(documents, manifest.Document{Name: file, Data: data})
	}
	if documents == nil {
		return nil, errors.New("there is no *.json, *.yaml or *.yml in the directory: put the manifest there, or name another one")
	}
	return documents, nil
}

// bare is an error without the path, which stands before it already.
func bare(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rhysd/actionlint"
)

// The workflows are what GitHub's runner accepts, as far as actionlint knows.
func TestTheWorkflows(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	var said bytes.Buffer
	l, err := actionlint.NewLinter(&said, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := l.LintFiles(files, nil); err != nil || len(found) > 0 {
		t.Errorf("%v\n%s", err, said.String())
	}
}

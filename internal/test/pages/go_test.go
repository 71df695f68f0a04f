//go:build linux

package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// around is the program around a block of statements: what the page says the names stand for.
const around = `package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
)

func main() {
	ctx := context.Background()
	st, err := memory.Open(ctx, store.Config{})
	if err == nil {
		err = statements(ctx, st)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func writeReport(_ context.Context, token any) error {
	_, err := fmt.Println("a report with token", token)
	return err
}

func statements(ctx context.Context, st *store.Store) error {
%sreturn err
}
`

// Each Go block of a page is compiled in a module of its own, as a program that uses dibs is, and run.
func TestGoBlocks(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "docs/first-steps/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		blocks, err := Blocks(read(t, path))
		if err != nil {
			t.Fatal(path, err)
		}
		for _, b := range blocks {
			if b.Kind != "go" || strings.HasPrefix(b.Note, "not run, ") {
				continue
			}
			n++
			text := b.Text
			if !strings.HasPrefix(text, "package ") {
				text = fmt.Sprintf(around, text)
			}
			if out, err := runGo(t, text); err != nil {
				t.Errorf("%s:%d: %v\n%s", path, b.Line, err, out)
			} else if text != b.Text && !strings.Contains(out, "a report with token") {
				t.Errorf("%s:%d did not do its work; it printed %q", path, b.Line, out)
			}
		}
	}
	if n == 0 {
		t.Error("no page has a Go block")
	}
}

// runGo runs a program in a module that has dibs in the place of its worktree, and the versions of dibs's own modules.
func runGo(t *testing.T, program string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read(t, filepath.Join(root, "go.mod")), "module example.org/reports")
	mod += fmt.Sprintf("\nrequire github.com/dibs-run/dibs v0.0.0\n\nreplace github.com/dibs-run/dibs => %s\n", here)
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read(t, filepath.Join(root, "go.sum")), "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", "-mod=mod", ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

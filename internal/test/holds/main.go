// Command holds writes docs/why/held.md: which tests hold each promise of docs/why/promises.md and each rule of
// docs/why/rules.md.
//
// A test says itself what it holds, in a line of its comment:
//
//	// Holds: promises 1, 3, L9.
//
// The line is the last one of a test function's comment. For a case of a table, as in store/storetest, it is the line
// just above the case. In a script of the command line it stands at the top, behind a #.
//
// Run it with make held, from anywhere in the repository. It fails, and writes nothing, if a line names a number that
// the pages do not have, if a line belongs to no test, or if no test holds a promise.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	page, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "why", "held.md"), page, 0o644)
}

// findRoot returns the folder of go.mod, which is this one or one above it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above: run this inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// generate returns the page for the repository at root, or every fault that it found.
func generate(root string) ([]byte, error) {
	promises, err := readNumbers(filepath.Join(root, "docs", "why", "promises.md"), promiseTitle)
	if err != nil {
		return nil, err
	}
	rules, err := readNumbers(filepath.Join(root, "docs", "why", "rules.md"), ruleTitle)
	if err != nil {
		return nil, err
	}
	tests, err := readTests(root)
	if err = errors.Join(err, check(promises, rules, tests)); err != nil {
		return nil, err
	}
	return page(promises, rules, tests), nil
}

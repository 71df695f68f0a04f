//go:build linux

package command

import (
	"os"
	"path/filepath"
	"testing"
)

// Find says beforehand what a start would say, and executes nothing.
func TestFindAgreesWithStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"does": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch ran\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + dir}
	for name, found := range map[string]bool{"does": true, "./does": true, filepath.Join(dir, "does"): true, "plain": false, "./plain": false,
		"none": false, "./none": false, "/nowhere/none": false, dir: false} {
		if err := Find(name, dir, env); (err == nil) != found {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Find("does", dir, []string{"PATH=/nowhere"}); err == nil {
		t.Error("found where the job's PATH does not lead")
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it was executed")
	}
}

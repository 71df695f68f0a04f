package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The cure of a full disk is space, and not the right to write.
func TestAFullDiskIsNoMatterOfRights(t *testing.T) {
	for _, err := range []error{&os.PathError{Op: "write", Path: "/d", Err: syscall.ENOSPC}, fmt.Errorf("acquire: %w", syscall.EDQUOT),
		errors.New("database or disk is full (13); the disk is full: free some space there, nothing else is needed"),
		errors.New("disk I/O error (4874); the disk failed or is full: see the kernel's log (dmesg) and df")} {
		for _, f := range []Finding{Unusable("/d", err), Unreadable("/d", err)} {
			if !strings.Contains(f.Cure, "Free some space") {
				t.Errorf("%v: %s", err, f.Cure)
			}
		}
	}
	if f := Unreadable("/d", os.ErrPermission); !strings.Contains(f.Cure, "right to read and write") {
		t.Errorf("permission: %s", f.Cure)
	}
}

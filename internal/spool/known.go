package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Remember keeps which store was at an address, so that a process which finds none there knows for
// whom it has something.
func Remember(dir, address, installation string) error {
	if Known(dir, address) == installation {
		return nil
	}
	path := known(dir, address)
	if err := (Spool{path}).makeDir(); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".known-")
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was renamed
	if shared(filepath.Dir(path)) {
		_ = f.Chmod(0o660)
	}
	_, err = f.WriteString(installation + "\n")
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// Known is the installation id of the store that was at an address when it was last used for a tick;
// "" where none was.
func Known(dir, address string) string {
	b, err := os.ReadFile(known(dir, address))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func known(dir, address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(dir, "spool", hex.EncodeToString(sum[:8])+".store")
}

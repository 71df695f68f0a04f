package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Remember keeps which store was at an address, so that a process which finds none there knows for
// whom it has something.
func Remember(dir, address, installation string) error {
	if Known(dir, address) == installation {
		return nil
	}
	d, err := Spool{dir: dir}.make()
	if err != nil {
		return err
	}
	return wrap(d.Replace(known(address), []byte(installation+"\n"), false))
}

// Known is the installation id of the store that was at an address when it was last used for a tick;
// "" where none was.
func Known(dir, address string) string {
	d, err := Spool{dir: dir}.open()
	if err != nil {
		return ""
	}
	b, err := d.Read(known(address), 1<<10)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func known(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:8]) + ".store"
}

package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Remember records which store was at an address. A process that later finds no store there knows by it which spool
// to use.
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

// Known is the installation id of the store that was at an address when it was last used for a tick; "" if there is
// none on record.
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

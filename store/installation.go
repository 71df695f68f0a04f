package store

import "fmt"

// CheckInstallation refuses an installation id that dibs did not make: an id is read from a store, to which others
// may write, and becomes part of file names on this host. It allows letters, digits and dashes, at most 64.
func CheckInstallation(id string) error {
	ok := id != "" && len(id) <= 64
	for i := range len(id) {
		c := id[i]
		ok = ok && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-')
	}
	if !ok {
		return fmt.Errorf("the store's installation id is %.80q, which dibs never created: it was changed; restore the old one, or use a new namespace", id)
	}
	return nil
}

package store

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNamespace bounds a namespace, in bytes.
const maxNamespace = 64

// CheckNamespace returns what is wrong with a namespace. A namespace becomes a part of keys, and of the names of
// locks and files, where a slash separates. So it must not contain a slash: else "a" with the key "b/c" would be
// "a/b" with "c".
func CheckNamespace(ns string) error {
	odd := func(c rune) bool {
		return c == '/' || c == '\\' || c == '{' || c == '}' || !unicode.IsGraphic(c) || unicode.IsSpace(c)
	}
	switch {
	case ns == "" || len(ns) > maxNamespace || !utf8.ValidString(ns):
		return fmt.Errorf("the namespace must be 1 to %d bytes of UTF-8", maxNamespace)
	case strings.ContainsFunc(ns, odd) || strings.HasPrefix(ns, "."):
		return fmt.Errorf("the namespace is %.100q: it must not begin with a dot, nor have slashes, braces or spaces; prod-eu would do", ns)
	}
	return nil
}

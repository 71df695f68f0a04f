// Package keys has the one rule of what a key may be: that of a lease, and that of a task's uniqueness or limit. It
// also has the bound of the other texts that stores keep.
package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Max is the length of the longest key, in bytes (rule L13).
const Max = 512

// Problem says what is wrong with s as a key, and what would be right. It is empty where rule L13 allows s: 1 to Max
// bytes of valid UTF-8 without control characters.
func Problem(s string) string {
	switch {
	case s == "":
		return fmt.Sprintf("it is empty; give 1 to %d bytes", Max)
	case len(s) > Max:
		return fmt.Sprintf("%q… has %d bytes; at most %d fit", Head(s), len(s), Max)
	case !utf8.ValidString(s):
		return fmt.Sprintf("%q is not valid UTF-8", Head(s))
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Sprintf("%q has a control character at byte %d", Head(s), i)
	}
	return ""
}

// Head is the beginning of s, for messages.
func Head(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "")
	}
	return s
}

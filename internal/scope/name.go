package scope

import (
	"fmt"
	"strings"
)

// maxLabel is how many bytes of a job's name are in its scope's, escaped. A unit's name has at most 255 in all.
const maxLabel = 120

// nameOf is the name of a run's scope. Names and ids come from outside: all that is left of them are characters which
// are neither a path's, nor a specifier's, nor a slice's to systemd.
func nameOf(job, runID string) string {
	return "dibs-" + label(job) + "-" + escape(runID, 80) + ".scope"
}

// label is a job's name as people know it from `dibs trigger`: shop.cleanup.
func label(job string) string { return escape(strings.ReplaceAll(job, "/", "."), maxLabel) }

// escape writes every other byte as systemd-escape does, and stops before it would be too long.
func escape(s string, most int) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		part := string(rune(c))
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.-", rune(c)) {
			part = fmt.Sprintf(`\x%02x`, c)
		}
		if b.Len()+len(part) > most {
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

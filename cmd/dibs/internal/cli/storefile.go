package cli

import (
	"errors"
	"fmt"
	"strings"
)

// errFileName does not quote the file: it may hold a password.
var errFileName = errors.New("its line begins with DIBS_STORE: want only the address, such as redis://host:6379/0, " +
	"without DIBS_STORE= and without quotes")

// addressIn returns the address in the text of a file that names the store. Blank lines, and lines that begin with #,
// are comments; a file of these alone names no store. Users paste the line of a crontab or of an environment file: the
// error says what is wrong with it.
func addressIn(text string) (string, error) {
	var found []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	switch {
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", fmt.Errorf("it has %d lines beside comments: want one line with only the address", len(found))
	case strings.HasPrefix(strings.TrimPrefix(found[0], "export "), "DIBS_STORE"):
		return "", errFileName
	}
	return found[0], nil
}

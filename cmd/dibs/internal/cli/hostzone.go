package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/conffile"
)

// zoneNames are UTC and names of the zone database, no two of which agree since 1970: those of its zone1970.tab.
//
//go:embed zones.txt
var zoneNames string

// hostZone is the zone of /etc/localtime under its IANA name, so that every server stores the same name for the same
// zone; UTC where nothing is set, as for cron.
func hostZone() (*time.Location, error) { return zoneIn("/etc") }

// zoneIn finds the zone of etc/localtime: by the link's name or, where it is a copy or a mount, as containers have it,
// by the rules in the file. A zone without a name is an error: other servers could not read it.
func zoneIn(etc string) (*time.Location, error) {
	file := filepath.Join(etc, "localtime")
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) { // nothing, or a link into a database that is not installed
		path, _ = os.Readlink(file)
	}
	_, name, _ := strings.Cut(path, "/zoneinfo/")
	if loc := zoneNamed(databaseName(name)); loc != nil {
		return loc, nil
	}
	text, _ := conffile.Read(filepath.Join(etc, "timezone"), conffile.Small)
	hint := strings.TrimSpace(string(text))
	if path == "" && errors.Is(err, fs.ErrNotExist) { // cron then reads UTC
		if loc := zoneNamed(hint); loc != nil && sameZone(time.UTC, loc) {
			return loc, nil
		} else if hint == "" {
			return time.UTC, nil
		}
		return nil, unnamed(file, fmt.Errorf("it is missing, so cron reads UTC, and %s/timezone says %q", etc, hint))
	}
	rules, err := zoneFile(file)
	if err != nil {
		return nil, unnamed(file, err)
	}
	for name := range strings.FieldsSeq(hint + "\n" + zoneNames) {
		if loc := zoneNamed(name); loc != nil && sameZone(rules, loc) {
			return loc, nil
		}
	}
	return nil, unnamed(file, errors.New("no zone that dibs knows has these rules"))
}

// databaseName is the zone of a path below the database, which may have each zone several times.
func databaseName(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "posix/"), "right/")
}

// zoneNamed loads a zone by a name that means the same on each host; nil: it is none.
func zoneNamed(name string) *time.Location {
	if strings.HasPrefix(strings.ToLower(name), "local") || name == "" || name == "posixrules" {
		return nil
	}
	loc, _ := time.LoadLocation(name)
	return loc
}

// unnamed names the cure that every command has; one with a flag for the zone adds that.
func unnamed(file string, err error) error {
	return fmt.Errorf("the name of the host's time zone is not known (%s: %w): link it to the zone's file, as in ln -sf /usr/share/zoneinfo/Europe/Berlin %s", file, err, file)
}

// zoneFile reads the rules of a zone.
func zoneFile(path string) (*time.Location, error) {
	b, err := conffile.Read(path, conffile.Small)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData("localtime", b)
}

// sameZone reports whether two zones agree from 1970 to 2037, which is as far as the files of zones list changes.
func sameZone(a, b *time.Location) bool {
	end := time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Unix(0, 0); at.Before(end); {
		inA, inB := at.In(a), at.In(b)
		nameA, offsetA := inA.Zone()
		nameB, offsetB := inB.Zone()
		if nameA != nameB || offsetA != offsetB {
			return false
		}
		next := end
		for _, t := range []time.Time{inA, inB} {
			if _, to := t.ZoneBounds(); !to.IsZero() && to.Before(next) && to.After(at) {
				next = to
			}
		}
		at = next
	}
	return true
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A zone is known by the link's name or by the rules in the file, and is never UTC for want of a name: where
// /etc/localtime is a copy or a mount, as in containers, ticks would be read in another zone than cron reads them.
func TestTheHostsZoneIsThatOfItsFile(t *testing.T) {
	database := "/usr/share/zoneinfo"
	rules := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(database, name))
		if err != nil {
			t.Skip(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		link     string // localtime is a link to it
		copied   []byte // or has this content
		timezone string
		want     string // "": an error with a cure
	}{
		"a link":                       {link: database + "/Asia/Tokyo", want: "Asia/Tokyo"},
		"a link below posix":           {link: database + "/posix/Asia/Tokyo", want: "Asia/Tokyo"},
		"a link without its database":  {link: "/nowhere/zoneinfo/Asia/Tokyo", want: "Asia/Tokyo"},
		"a copy":                       {copied: rules("Asia/Tokyo"), want: "Asia/Tokyo"},
		"a copy with rules":            {copied: rules("Europe/Berlin"), want: "Europe/Berlin"},
		"a copy of another hemisphere": {copied: rules("America/Sao_Paulo"), want: "America/Sao_Paulo"},
		"a copy of UTC":                {copied: rules("UTC"), want: "UTC"},
		"a copy that has a name":       {copied: rules("Asia/Tokyo"), timezone: "Japan\n", want: "Japan"},
		"a copy with another name":     {copied: rules("Asia/Tokyo"), timezone: "Europe/Berlin\n", want: "Asia/Tokyo"},
		"a copy called Local":          {copied: rules("Asia/Tokyo"), timezone: "Local\n", want: "Asia/Tokyo"},
		"rules of nowhere":             {copied: []byte("TZif")},
		"nothing":                      {want: "UTC"},
		"nothing but UTC's name":       {timezone: "Etc/UTC\n", want: "Etc/UTC"},
		"nothing but a name":           {timezone: "Asia/Tokyo\n"},
		"a link to nothing":            {link: "/nowhere"},
		"a link to itself":             {link: "localtime"},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			at := filepath.Join(etc, "localtime")
			var err error
			if c.link != "" {
				err = os.Symlink(c.link, at)
			} else if c.copied != nil {
				err = os.WriteFile(at, c.copied, 0o644)
			}
			if err == nil && c.timezone != "" {
				err = os.WriteFile(filepath.Join(etc, "timezone"), []byte(c.timezone), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			switch zone, err := zoneIn(etc); {
			case c.want != "" && (err != nil || zone.String() != c.want):
				t.Errorf("%v, %v, want %s", zone, err, c.want)
			case c.want == "" && (err == nil || !strings.Contains(err.Error(), "ln -sf /usr/share/zoneinfo/Europe/Berlin "+at)):
				t.Errorf("%v, %v, want an error that says to link the file", zone, err)
			}
		})
	}
}

// The error about the host's zone names the flag of a command that has one, and none to the others: plan, apply, drift
// and adopt.
func TestTheUnknownZoneNamesAFlagThatTheCommandHas(t *testing.T) {
	t.Setenv("CRON_TZ", "")
	t.Setenv("TZ", "")
	etc := t.TempDir()
	if err := os.WriteFile(filepath.Join(etc, "localtime"), []byte("TZif"), 0o644); err != nil {
		t.Fatal(err)
	}
	for flag, find := range map[string]func() (*time.Location, error){
		"--tz":   func() (*time.Location, error) { return cronZoneIn(etc, "") },
		"--zone": func() (*time.Location, error) { return zoneToImport(etc) },
		"":       func() (*time.Location, error) { return zoneIn(etc) },
	} {
		_, err := find()
		if err == nil || !strings.Contains(err.Error(), "ln -sf") || flag != "" && !strings.Contains(err.Error(), flag+" Europe/Berlin") {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		for _, other := range []string{"--tz", "--zone", "TZ="} {
			if has := strings.Contains(err.Error(), other); has != (other == flag || flag == "--tz" && other == "TZ=") {
				t.Errorf("%q: it names %s: %v: %v", flag, other, has, err)
			}
		}
	}
}

// Each zone of the list exists and has rules of its own, so that a copy of its file has one name.
func TestNoTwoNamesOfTheListAreOneZone(t *testing.T) {
	var all []*time.Location
	for name := range strings.FieldsSeq(zoneNames) {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, loc)
	}
	if len(all) < 300 {
		t.Fatalf("the list has %d zones", len(all))
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if sameZone(a, b) {
				t.Errorf("%s and %s are one", a, b)
			}
		}
	}
}

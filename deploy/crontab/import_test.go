package crontab

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs/manifest"
)

const imported = `# m h dom mon dow user command

MAILTO=ops@example.org
PATH=/opt/bin:/usr/bin
# The invoices of last month.
# Ask Ines first.
15 4 1 * * www  php /srv/shop/generateInvoices.php --month="$(date +\%m)"
@reboot root /usr/bin/start-it
CRON_TZ=Europe/Berlin
SHELL=/bin/bash
*/5 8-18 * * MON-FRI root echo 'a: #b' && echo "x"
0 0 * * * root mail -s hi ops%the text
this is nothing
0 0 * * * root printf crlf` + "\r\n" + `@daily root true
@daily root true
`

func importOptions() ImportOptions {
	return ImportOptions{App: "shop", Zone: "America/New_York", System: true,
		Home: func(u string) (string, error) { return "/home/" + u, nil }}
}

// A crontab becomes a manifest that the loader reads, with its environment as it counts for each line.
func TestImport(t *testing.T) {
	text, left, err := Import([]byte(imported), importOptions())
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Load(text, "x.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(m.Jobs) != 4 {
		t.Fatalf("%d jobs:\n%s", len(m.Jobs), text)
	}
	first, second := m.Jobs[0], m.Jobs[1]
	if c := first.Command; first.Name != "php-generateinvoices" || c.Shell != `php /srv/shop/generateInvoices.php --month="$(date +%m)"` ||
		c.User != "www" || c.Dir != "/home/www" || c.Env["PATH"] != "/opt/bin:/usr/bin" || c.Env["MAILTO"] != "ops@example.org" {
		t.Errorf("first: %q %+v", first.Name, c)
	}
	if first.Timezone != "America/New_York" || first.Schedules[0] != "15 4 1 * *" || first.Policy.Scope != "host" {
		t.Errorf("first: %+v", first)
	}
	if c := second.Command; strings.Join(c.Args, "|") != `/bin/bash|-c|echo 'a: #b' && echo "x"` || second.Timezone != "Europe/Berlin" {
		t.Errorf("second: %+v in %s", c, second.Timezone)
	}
	if m.Jobs[2].Name == m.Jobs[3].Name {
		t.Error("two jobs of one name")
	}
	if !strings.Contains(string(text), "# The invoices of last month.\n") || !strings.Contains(string(text), "# Ask Ines first.\n") {
		t.Errorf("the comments are not there:\n%s", text)
	}
	var lines []int
	for _, l := range left {
		lines = append(lines, l.Line)
		if l.Reason == "" || l.Text == "" {
			t.Errorf("line %d: %+v", l.Line, l)
		}
	}
	if want := []int{3, 8, 12, 13, 14}; !equalInts(lines, want) {
		t.Errorf("left: %v, want %v", lines, want)
	}
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// What a crontab does not say has to be given, and a table without entries gives no manifest.
func TestImportRefuses(t *testing.T) {
	o := importOptions()
	if _, _, err := Import([]byte("@reboot root x\n"), o); err == nil {
		t.Error("a manifest without jobs")
	}
	o.Zone = ""
	if _, _, err := Import([]byte(imported), o); err == nil {
		t.Error("a zone was guessed")
	}
}

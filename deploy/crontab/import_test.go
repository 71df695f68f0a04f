package crontab

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
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
	var lines, kept []int
	for _, l := range left {
		if l.Kept {
			kept = append(kept, l.Line)
		} else {
			lines = append(lines, l.Line)
		}
		if l.Reason == "" || l.Text == "" {
			t.Errorf("line %d: %+v", l.Line, l)
		}
	}
	if want := []int{3, 8, 12, 13, 14}; !equalInts(lines, want) {
		t.Errorf("left: %v, want %v", lines, want)
	}
	if want := []int{11, 15, 16}; !equalInts(kept, want) { // below CRON_TZ
		t.Errorf("kept, with a word: %v, want %v", kept, want)
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

// Each line that a job cannot do exactly is carried over or told, and none stops the others.
func TestImportTells(t *testing.T) {
	o := importOptions()
	o.System, o.Login = false, "me"
	for name, c := range map[string]struct {
		text, kept, left string // parts of the reasons, or empty
		holds            string // part of the manifest
	}{
		"two backslashes":        {`0 5 * * * grep '\\' f`, "", "crons differ over its two backslashes", ""},
		"a percent sign":         {`0 5 * * * date +%F`, "", `write \%; if standard input was meant, use a script`, ""},
		"over the week's end":    {"* * * * fri-mon x", "", "crons differ over its day-of-week, fri-mon", ""},
		"mon#1":                  {"* * * * mon#1 x", "", "crons differ over its day-of-week, mon#1", ""},
		"L":                      {"* * L * * x", "", "cron does not read its day-of-month", ""},
		"a random value":         {"0~30 1 * * * x", "a random value for its minute, 0~30", "", "H(0-30) 1 * * *"},
		"cronie's random value":  {"~30 5~ * * * x", "a random value for its hour", "", "H(0-30) H(5-23) * * *"},
		"a flag":                 {"0 9 * * * -n -q /srv/a", "its flag -n", "", "shell: /srv/a"},
		"cronie's minus":         {"-0 9 * * * /srv/a", "the - in front", "", "schedule: 0 9 * * *"},
		"CRON_TZ":                {"CRON_TZ=Asia/Tokyo\n0 9 * * * x", "without that line in the crontab it would be America/New_York", "", "timezone: Asia/Tokyo"},
		"RANDOM_DELAY":           {"RANDOM_DELAY=45\n0 9 * * * x", "jitter_seconds: 2700", "", "jitter_seconds: 2700"},
		"a control character":    {"# a\x01b\u2028c\u0085d\ufeff\n0 9 * * * x", "", "", "# a\ufffdb\ufffdc\ufffdd\ufffd\n"},
		"a missing home":         {"HOME=/no/such\n0 9 * * * x", `its home directory "/no/such" is not there`, "", "dir: /\n"},
		"LOGNAME":                {"LOGNAME=foo\n0 9 * * * x", "", "", "LOGNAME: me\n"},
		"cron's own environment": {"0 9 * * * x", "", "", "SHELL: /bin/sh\n"},
		"an empty SHELL":         {"SHELL=\"\"\n0 9 * * * x", "", "is no absolute path", ""},
		"a name of a variable":   {"A B=x\n0 9 * * * x", "", "cron does not read it", "shell: x"},
		"flock":                  {"0 9 * * * /usr/bin/flock -w 5 -n /run/x.lock nice -n 10 timeout -k 3 60 /srv/backup.sh --all", "", "", "name: backup\n"},
		"flock -c":               {"0 9 * * * flock -n /run/x.lock -c 'A=1 /srv/report'", "", "", "name: report\n"},
		"what stays":             {"*/5 * * * * pgrep -x agent || agent --daemon", "", "", "leftovers: leave"},
	} {
		// Another line shows that this one did not stop the import.
		text, left, err := Import([]byte("@daily other\n"+c.text+"\n"), o)
		if err != nil || !strings.Contains(string(text), "shell: other") || !strings.Contains(string(text), c.holds) {
			t.Errorf("%s: %v, want %q in\n%s", name, err, c.holds, text)
		}
		var kept, out string
		for _, l := range left {
			if l.Kept {
				kept += l.Reason + "\n"
			} else {
				out += l.Reason + "\n"
			}
		}
		if !strings.Contains(kept, c.kept) || !strings.Contains(out, c.left) || c.kept == "" && kept != "" && !strings.Contains(c.text, "=") || c.left == "" && out != "" {
			t.Errorf("%s: kept with %q, left with %q; want %q and %q", name, kept, out, c.kept, c.left)
		}
	}
	if _, _, err := Import([]byte("# only comments\n"), o); err == nil || err.Error() != "it has no entries" {
		t.Errorf("comments alone: %v", err)
	}
}

// A table in which each entry begins with a user is probably a system's.
func TestASystemsTableIsNoticed(t *testing.T) {
	for text, want := range map[string]bool{
		"# c\nA=b\n0 5 * * * root /srv/backup.sh\n@daily root true\n": true,
		"0 5 * * * /srv/backup.sh\n":                                  false,
		"0 5 * * * root /srv/backup.sh\n@daily true\n":                false,
		"0 5 * * * no-such-user x\n":                                  false,
		"# c\n":                                                       false,
	} {
		if name, got := LooksSystem([]byte(text)); got != want || got && name != "root" {
			t.Errorf("%q: %v, %s", text, got, name)
		}
	}
}

// The table of another user becomes jobs of that user, and they match it again.
func TestTheTableOfAnotherUserIsImportedAsTheirs(t *testing.T) {
	t.Parallel()
	o := importOptions()
	o.System, o.Login, o.SetUser = false, "ann", true
	const table = "0 5 * * * /srv/backup.sh\n"
	text, _, err := Import([]byte(table), o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Load(text, "x.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c := m.Jobs[0].Command
	if c.User != "ann" || c.Dir != "/home/ann" || c.Env["HOME"] != "" || c.Env["LOGNAME"] != "" {
		t.Errorf("%+v", c)
	}
	for user, matches := range map[string]bool{"": true, "root": true, "nobody": false} {
		i, err := newImage(layout{user: "root"}, "x", true, table) // of a user who is there
		if err != nil {
			t.Fatal(err)
		}
		found := i.matchPlain(deploy.Plain{When: []string{"0 5 * * *"}, Zone: o.Zone, Shell: c.Shell, Dir: homeOfRoot(t), User: user, Env: c.Env})
		if (len(found.Refs) == 1) != matches {
			t.Errorf("a job of user %q: %+v", user, found)
		}
	}
}

func homeOfRoot(t *testing.T) string {
	t.Helper()
	home, err := homeOf("root")
	if err != nil {
		t.Skip("NOT COVERED: the table of root: " + err.Error())
	}
	return home
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy/crontab"
)

// Where a cron keeps its users' tables, as busybox's does in /etc/crontabs, entries have no user: the file names the
// user whose they are.
func TestTheUsersTableIsKnownByItsPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		system bool
		login  string
	}{
		"/etc/crontab":                 {true, ""},
		"/etc/cron.d/app":              {true, ""},
		"/etc/crontabs/ann":            {false, "ann"},
		"/etc/crontabs/old/ann":        {true, ""},
		"/var/spool/cron/crontabs/ann": {false, "ann"},
		"/var/spool/cron/ann":          {false, "ann"},
		"/var/spool/cron/tabs/ann":     {false, "ann"},
		"/home/ann/crontab":            {false, ""},
		"":                             {false, ""},
	} {
		if system, login := tableAt(path); system != want.system || login != want.login {
			t.Errorf("%q: %v %q, want %v", path, system, login, want)
		}
	}
}

// A table that was taken for a system's only by its place names --table, where its entries seem to have no user.
func TestAGuessedSystemsTableNamesTheFlag(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(file, []byte("0 5 * * * /srv/backup.sh --all\n0 6 * * * /srv/report.sh\n0 7 * * * root true\n@reboot root true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{false, true} {
		var out, told bytes.Buffer
		o := crontab.ImportOptions{App: "shop", Zone: "UTC", System: true}
		if err := runImport(env{stdout: &out, stderr: &told}, o, file, asked); err != nil {
			t.Fatal(err)
		}
		want := 2
		if asked {
			want = 0
		}
		if got := strings.Count(told.String(), "give --table user"); got != want {
			t.Errorf("asked for %v: %d times --table user, want %d:\n%s", asked, got, want, told.String())
		}
	}
}

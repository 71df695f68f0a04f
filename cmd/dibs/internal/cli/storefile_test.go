package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that names the store may have comments. What people paste into it from a crontab is refused with the
// cure, and without the password.
func TestStoreFile(t *testing.T) {
	const url = "mysql://app:hunter2@db/app"
	for _, c := range []struct{ text, says string }{
		{url, ""},
		{"# the fleet's store\n\n  " + url + "\n", ""},
		{"DIBS_STORE=" + url + "\n", "without DIBS_STORE= and"},
		{"export DIBS_STORE=" + url + "\n", "without DIBS_STORE= and"},
		{url + "\nredis://h/0\n", "it has 2 lines beside comments"},
		{url + "   # the fleet's", "put the comment on its own line"},
	} {
		path := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DIBS_STORE", "") // which puts it back
		if err := os.Unsetenv("DIBS_STORE"); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DIBS_STORE_FILE", path)
		a, err := resolve("")
		switch {
		case c.says == "" && (err != nil || a.implicit || a.Config.String() != "mysql://app:xxxxx@db/app"):
			t.Errorf("%q: %v, %v", c.text, a, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// cron takes all of DIBS_STORE='s line as the value, with the comment behind it.
func TestACommentBehindTheStore(t *testing.T) {
	t.Setenv("DIBS_STORE", "redis://:hunter2@h/0        # or, better, a file")
	if _, err := resolve(""); err == nil || !strings.Contains(err.Error(), "a comment follows it") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
